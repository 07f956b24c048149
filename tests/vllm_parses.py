"""Run by a Python that has vLLM: parses command lines with vLLM's own parser. JSON in, JSON out, one list each.

    [["vllm", "serve", "/models/x", "--tensor-parallel-size", "2"], …]  ->  [{"parsed": {…}} or {"error": "…"}, …]

Keys of --speculative-config are held against SpeculativeConfig, which the parser itself leaves to the engine's start.
"""

import contextlib
import dataclasses
import io
import json
import os
import sys

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

from vllm.config import SpeculativeConfig
from vllm.utils.argparse_utils import FlexibleArgumentParser

try:
    from vllm.entrypoints.common.cli_args import make_arg_parser
except ImportError:
    try:
        from vllm.entrypoints.launchers.cli_args import make_arg_parser
    except ImportError:
        from vllm.entrypoints.openai.cli_args import make_arg_parser

DRAFTS = {f.name for f in dataclasses.fields(SpeculativeConfig)}


def parsed(argv: list) -> dict:
    """What the parser made of one command line, as text; or why it refused."""
    parser = make_arg_parser(FlexibleArgumentParser())
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            args = parser.parse_args(argv[2:])
    except SystemExit:
        return {"error": said.getvalue().strip().rsplit("\n", 1)[-1]}
    except Exception as e:  # a JSON option that its configuration class refuses
        return {"error": f"{type(e).__name__}: {e}"}
    drafts = args.speculative_config or {}
    strange = sorted(set(drafts) - DRAFTS)
    if strange:
        return {"error": f"--speculative-config has no {', '.join(strange)}"}
    return {"parsed": {k: repr(v) for k, v in vars(args).items()}}


if __name__ == "__main__":
    json.dump([parsed(argv) for argv in json.load(sys.stdin)], sys.stdout)
