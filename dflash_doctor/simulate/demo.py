"""The stories that `dflash-doctor demo` tells: a tuned host, what became of it, and what should be said of it."""

from __future__ import annotations

from dataclasses import dataclass

from dflash_doctor.model import Refused


@dataclass(frozen=True)
class Demo:
    """Baseline from one scenario, diagnosis of the other."""

    name: str
    tuned: str  # scenario whose host the baseline is captured from
    broken: str  # scenario whose host is diagnosed
    story: str
    expects: tuple[str, ...]  # causes, any of which is right at rank 1; empty: nothing regressed
    says: str  # a sentence like it should be in the report
    served: bool = True  # False: the broken server does not come up, so that there is nothing to put load on


DEMOS = (
    Demo(
        "a6000-dflash",
        "a6000-tuned",
        "a6000-dflash",
        "Qwen3.6-27B on 2x RTX A6000 was tuned with SGLang and its MTP head: 73.5 tok/s. Then it was moved to "
        "vLLM 0.20.1 with a DFlash drafter: 17.7 tok/s.",
        ("spec.drafter_undertrained", "spec.acceptance_collapse"),
        "the drafter's tokens are accepted 1.1 % of the time (1.17 tokens per step), from the first position on",
    ),
    Demo(
        "a6000-flash-attn-4",
        "a6000-tuned",
        "a6000-flash-attn-4",
        "The same move, a day earlier: `pip install flash-attn-4` where flash-attn 2.8.3 was meant, and the server "
        "does not come up.",
        ("attention.library_mismatch", "server.failing"),
        "flash-attn-4 4.0.0b12 is installed, it has no flash_attn.ops that vLLM 0.20.1 imports",
        served=False,
    ),
    Demo(
        "healthy",
        "a6000-tuned",
        "healthy",
        "The tuned host a day later. Nothing regressed, and the report should say so.",
        (),
        "healthy",
    ),
)


def demo(name: str | None) -> Demo:
    """The story of that name; the first one when none is given."""
    if name is None:
        return DEMOS[0]
    for one in DEMOS:
        if one.name == name:
            return one
    raise Refused(f"there is no demo {name!r}; there are {', '.join(d.name for d in DEMOS)}")
