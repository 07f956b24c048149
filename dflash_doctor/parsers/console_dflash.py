"""What `dflash benchmark` prints, with any backend. It writes no file, so this is all there is.

    Backend: sglang                                  served backends (0.1.0: `openai`; before: vllm, sglang)
    Dataset: math500
    Concurrency: 1
    Throughput: 162.40 tok/s                         all tokens of the answers over the run's time, prefill included
    Accept length: 5.91                              only where the server gives it

    Baseline throughput: 28.31 tok/s                 local backends (transformers, mlx): without drafting and with it
    DFlash throughput:  73.45 tok/s
    Average Acceptance length: 5.91
    Acceptance length histogram: ['0.0%', '14.2%', '9.8%', …]     by tokens per step

Forms as of dflash 0.1.0 and of the command line before it (`python -m dflash.benchmark --backend …`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from dflash_doctor.model import Facts, Sample
from dflash_doctor.parsers.results import UNNAMED, Result, known, number

TOOL = "dflash benchmark"
SERVED = "all tokens over time"
# Latency: 12.3s | Output tokens: 4096 | Throughput: 41.2 tok/s | Accept length: 5.91      (one a line, or on one line)
ITEM = re.compile(
    r"(?P<label>Backend|Dataset|Num prompts|Concurrency|Latency|Output tokens|Throughput|Accept length|Spec verify ct"
    r"|Baseline throughput|DFlash throughput|Decoding speedup|Average Acceptance length|Acceptance length histogram)"
    r": {0,20}(?P<value>[^|\n]{1,400})"
)
COMMAND = re.compile(r"dflash[. ]benchmark (?:--backend )?(?P<backend>transformers|mlx|vllm|sglang)")
SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?) ?%")

Items = Mapping[str, tuple[str, int, str]]  # label -> value, line number, line


def read(lines: Sequence[tuple[int, str]], told: Mapping[str, str], source: str) -> Facts:
    """The samples of every run."""
    runs = list(_runs(lines))
    samples = tuple(s for items in runs for s in _samples(items, told, source))
    return Facts(engine=_engine(runs, lines) if samples else None, samples=samples)


def _runs(lines: Sequence[tuple[int, str]]) -> Iterator[Items]:
    found: dict[str, tuple[str, int, str]] = {}
    for n, line in lines:
        for m in ITEM.finditer(line):
            if m["label"] in found:  # the next run begins
                yield found
                found = {}
            found[m["label"]] = (m["value"].strip(), n, line.strip())
    if found:
        yield found


def _samples(items: Items, told: Mapping[str, str], source: str) -> Iterator[Sample]:
    local = "DFlash throughput" in items or "Baseline throughput" in items
    if not local and not ("Throughput" in items and ("Output tokens" in items or "Accept length" in items)):
        return

    def text(label: str) -> str:
        return items[label][0] if label in items else ""

    data = text("Dataset") or told.get("dataset") or UNNAMED
    at_once = number(text("Concurrency") or told.get("concurrency") or ("1" if local else None))
    asked = known(
        dataset=data, backend=text("Backend") or told.get("backend"),
        num_prompts=number(text("Num prompts") or told.get("num_prompts")),
    )  # fmt: skip

    def one(label: str, metric: str, statistic: str = "") -> Iterator[Sample]:
        if label in items:
            value, n, line = items[label]
            result = Result(TOOL, source, n, data, at_once, asked)
            yield from result.sample(metric, value.split()[0].replace(",", ""), statistic, said=line)

    yield from one("Throughput", "output_tok_s", SERVED)
    yield from one("Accept length", "accept_length")
    yield from one("DFlash throughput", "output_tok_s", "with drafting")
    yield from one("Baseline throughput", "output_tok_s", "without drafting")
    yield from one("Average Acceptance length", "accept_length")
    first = _first(text("Acceptance length histogram"), number(text("Average Acceptance length")))
    if first is not None:
        _, n, line = items["Acceptance length histogram"]
        yield from Result(TOOL, source, n, data, at_once, asked).sample("accept_first", first, said=line)


def _first(histogram: str, mean: float | None) -> float | None:
    """Share of steps whose first draft was right, from the shares of steps by tokens gained.

    Whether the bonus token is counted in, the mean tells: the histogram's own must agree with it.
    """
    shares = [float(x) / 100 for x in SHARE.findall(histogram)]
    if not shares or mean is None:
        return None
    own = sum(i * share for i, share in enumerate(shares))
    if abs(own - mean) < 0.15:
        return sum(shares[2:])
    return sum(shares[1:]) if abs(own + 1 - mean) < 0.15 else None


def _engine(runs: Sequence[Items], lines: Sequence[tuple[int, str]]) -> str | None:
    """What served or ran the model, where the print says so."""
    said = [items["Backend"][0].lower() for items in runs if "Backend" in items]
    said += [m["backend"] for _, line in lines if "dflash" in line and (m := COMMAND.search(line))]
    return next((s for s in said if s in ("transformers", "mlx", "vllm", "sglang")), None)
