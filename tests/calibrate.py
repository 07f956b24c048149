"""Fits data/calibration.yaml to labelled incidents that the rules were not written with.

    python tests/calibrate.py FOLDER            prints the curve and how far off it is, cross-validated
    python tests/calibrate.py FOLDER --write    and keeps it

FOLDER holds cases as YAML: `capture` and `baseline` (file name -> text), `expected` (cause, also, secondary).
"""

from __future__ import annotations

import argparse
import json
import math
import random
from pathlib import Path

import yaml
from scipy.optimize import minimize

from dflash_doctor import compare, diagnose, parse
from dflash_doctor.model import Capture
from dflash_doctor.rules import calibration

KEPT = Path(__file__).parent.parent / "dflash_doctor" / "data" / "calibration.yaml"
HEAD = "# How often findings are right that rules call this sure; fitted by tests/calibrate.py.\n"
Pair = tuple[str, float, bool]  # incident, the rule's confidence, whether it was right


def snapshot(name, files):
    """A capture as the case lays it out."""
    texts = {
        k: v if isinstance(v, str) else json.dumps(v) if k.endswith(".json") else yaml.safe_dump(v)
        for k, v in files.items()
    }
    return parse.parse(Capture(name, {k: v.encode() for k, v in texts.items()}))


def pairs(folder: Path) -> list[Pair]:
    """What was said loudly on every case, as sure as its rule is, and whether it was right."""
    diagnose.calibrated = float  # as the rules say it
    found: list[Pair] = []
    for path in sorted(folder.rglob("*.yaml")):
        case = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        want = case["expected"]
        right = {want["cause"], *want.get("also", []), *want.get("secondary", [])}
        now = snapshot("capture", case["capture"])
        was = snapshot("baseline", case["baseline"]) if case.get("baseline") else (now.earlier or [None])[-1]
        d = diagnose.diagnose(compare.compare(now, was), "x")
        found += [(path.stem, f.confidence, f.cause in right) for f in d.findings if f.severity != "info"]
    return found


def fitted(found: list[Pair]) -> tuple[float, float]:
    """Intercept and slope by maximum likelihood, held lightly to no change (0 and 1)."""
    rows = [(math.log(p / (1 - p)), y) for _, c, y in found for p in [min(max(c, 0.02), 0.98)]]

    def loss(t):
        z = [(t[0] + t[1] * x) * (1 if y else -1) for x, y in rows]
        return sum(math.log1p(math.exp(-v)) for v in z) + (t[1] - 1) ** 2 + 0.1 * t[0] ** 2

    intercept, slope = minimize(loss, [0.0, 1.0]).x
    return float(intercept), float(slope)


def error(found: list[tuple[float, bool]]) -> float:
    """Expected calibration error over five buckets."""
    buckets: dict[int, list[tuple[float, bool]]] = {}
    for p, y in found:
        buckets.setdefault(min(int(5 * p), 4), []).append((p, y))
    return sum(abs(sum(p for p, _ in b) - sum(y for _, y in b)) for b in buckets.values()) / max(len(found), 1)


def crossed(found: list[Pair], folds: int = 5) -> float:
    """The error on incidents that the curve was not fitted to."""
    names = sorted({name for name, _, _ in found})
    random.Random(1).shuffle(names)
    out = []
    for k in range(folds):
        test = set(names[k::folds])
        curve = fitted([x for x in found if x[0] not in test])
        calibration._curve = lambda curve=curve: curve
        out += [(calibration.calibrated(c), y) for name, c, y in found if name in test]
    return error(out)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder", type=Path)
    p.add_argument("--write", action="store_true")
    asked = p.parse_args()
    found = pairs(asked.folder)
    intercept, slope = fitted(found)
    raw, cross = error([(c, y) for _, c, y in found]), crossed(found)
    said = {
        "intercept": round(intercept, 3), "slope": round(slope, 3), "findings": len(found),
        "incidents": len({name for name, _, _ in found}), "error_before": round(raw, 3),
        "error_cross_validated": round(cross, 3),
    }  # fmt: skip
    print(yaml.safe_dump(said, sort_keys=False), end="")
    if asked.write:
        KEPT.write_text(HEAD + yaml.safe_dump(said, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
