"""The two sides of one port: what the tuned side has and how it came by it, what the other has, and on which cards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dflash_doctor.gpu_words import GpuSpec
from dflash_doctor.model import Setting, Snapshot
from dflash_doctor.port import tables
from dflash_doctor.port.nouns import By
from dflash_doctor.settings import SETTINGS, alike, defaults

SILENT = (None, "", "auto", "default", ())
# names of models with many small experts, and of those with latent attention
_MOE = re.compile(
    r"moe|mixtral|deepseek|kimi[-_]?k|gpt[-_]?oss|-a\d+(?:\.\d)?b|glm-?(?:4\.[5-9]|[5-9])|minimax|ling-|maverick|scout"
    r"|jamba|grok",
    re.I,
)
_MLA = re.compile(r"deepseek[-_]?(?:v[2-9]|r\d|coder-v2)|kimi[-_]?k[23]|glm-?5|longcat|minicpm3|kimilinear", re.I)


@dataclass(frozen=True)
class Move:
    """From a tuned snapshot to a release of an engine, perhaps one that already runs somewhere."""

    tuned: Snapshot
    engine: str
    version: str
    against: Snapshot | None = None
    was: GpuSpec | None = None  # the cards of the tuned side
    card: GpuSpec | None = None  # of the other side
    cards: int = 1  # that the launch takes
    defaults: Mapping[str, Setting] = field(default_factory=dict)  # of the other side's release

    @property
    def source(self) -> str:
        """The tuned side's engine."""
        return self.tuned.engine or ""

    @property
    def same(self) -> bool:
        """One engine on both sides, perhaps in two releases."""
        return self.source == self.engine

    def value(self, key: str, default: Any = None) -> Any:
        """What the tuned side has."""
        return self.tuned.value(key, default)

    def whole(self, key: str, default: int) -> int:
        """The same, as a whole number above zero."""
        found = self.tuned.value(key)
        good = isinstance(found, int) and not isinstance(found, bool) and found > 0
        return found if good else default

    def by(self, key: str) -> By:
        """How the tuned side came by it."""
        setting = self.tuned.settings.get(key)
        if setting is None:
            return "not set"
        if key in self.tuned.asked or setting.said == "asked":
            return "set"
        if setting.said == "default":
            return "default"
        if not self.tuned.asked and key in SETTINGS and self._deviates(setting):
            return "set"  # no launch line was seen, and it is not what this release does by itself
        return "chosen"

    def _deviates(self, setting: Setting) -> bool:
        usual = self.own_defaults.get(setting.key)
        return usual is not None and not alike(setting.key, setting.value, usual.value)

    @cached_property
    def own_defaults(self) -> Mapping[str, Setting]:
        """What the tuned side's release does by itself."""
        return {s.key: s for s in defaults(self.source, self.tuned.version)}

    def now(self, key: str) -> tuple[Any, By]:
        """What the other side has, as far as it is known, and how it came by it."""
        if self.against is not None:
            setting = self.against.settings.get(key)
            if setting is not None:
                asked = key in self.against.asked or setting.said == "asked"
                return setting.value, "set" if asked else "chosen" if setting.said == "effective" else "default"
        usual = self.defaults.get(key)
        return (usual.value, "default") if usual is not None else (None, "not set")

    # -- what kind of model it is ----------------------------------------------------------------------------------

    @cached_property
    def moe(self) -> bool:
        """Whether the model has experts, as far as its name and the settings tell."""
        asked = any(k.startswith(("moe.", "parallel.eplb")) for k in self.tuned.asked)
        return asked or self.whole("parallel.ep", 1) > 1 or bool(self.value("parallel.dp_attention")) or self._is(_MOE)

    @cached_property
    def mla(self) -> bool:
        """Whether the model has latent attention, whose kernels are others."""
        return self._is(_MLA) or str(self.value("attention.backend", "")).endswith("_mla")

    def _is(self, pattern: re.Pattern[str]) -> bool:
        names = (str(self.value("model.path", ""))[-200:], str(self.value("model.architecture", ""))[:100])
        return any(pattern.search(n) for n in names)

    # -- speculation ----------------------------------------------------------------------------------------------

    @property
    def drafts(self) -> bool:
        """Whether the tuned side drafts."""
        return self.value("spec.method", "none") not in ("none", *SILENT)

    @cached_property
    def drafts_there(self) -> bool:
        """Whether the other side's release has the tuned side's method."""
        method = self.value("spec.method", "none")
        return self.drafts and tables.word("spec.method", method, self.engine, self.version).text is not None

    @property
    def width(self) -> int:
        """Tokens that one request verifies per step: the drafts and the bonus token; 1 without speculation."""
        return self.whole("spec.depth", 0) + 1 if self.drafts_there else 1

    # -- data parallel attention ----------------------------------------------------------------------------------

    @property
    def attention_ranks(self) -> int:
        """Data parallel ranks of attention that share one model; 1 where each replica has its own."""
        if self.source == "sglang":
            own = self.whole("parallel.attn_dp_size", 1)
            return own if own > 1 else self.whole("parallel.dp", 1) if self.value("parallel.dp_attention") else 1
        return self.whole("parallel.dp", 1) if self.moe else 1
