"""When a load has seen enough: simulated servers with known noise, a hundred seeds each, no waiting."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from random import Random

import pytest

from dflash_doctor.cli.progress import decided as told
from dflash_doctor.load.deciding import BOUNDS, BOUNDS_PASSES, Against, against, decide, due
from dflash_doctor.model import Sample

WITHIN, BETWEEN = 0.03, 0.01  # sd of log speed: of one answer, and between two starts
PROMPTS = [f"p{i}" for i in range(32)]


def start(rng, speeds, slower=1.0, between=BETWEEN):
    """What one start of a server gives for each prompt, as often as asked."""
    boot = rng.gauss(0, between)
    return lambda p: speeds[p] * slower * math.exp(boot + rng.gauss(0, WITHIN))


def stored(rng, speeds, boots):
    starts = [start(rng, speeds) for _ in range(boots)]
    return against(
        Sample("output_tok_s", give(p), workload="battery", concurrency=1.0, prompt=p, boot=f"boot-{i}")
        for i, give in enumerate(starts)
        for p in PROMPTS
    )


def decided(give, was, passes):
    """The word at which a load stops, and after how many answers."""
    logs = {p: [] for p in PROMPTS}
    for done in range(1, passes + 1):
        for i, p in enumerate(PROMPTS, 1):
            logs[p].append(math.log(give(p) / was.speeds[p]))
            if due(i, 32) and (done == 1 or i == 32):
                pairs = [sum(v) / len(v) for v in logs.values() if len(v) == done]
                found = decide(pairs, 32, was, passes, done)
                if found.word != "undecided":
                    return found.word, (done - 1) * 32 + i
    return "undecided", 32 * passes


def outcomes(slower, *, boots=10, passes=1, same_boot=False):
    found = []
    for seed in range(100):
        rng = Random(seed)
        speeds = {p: 70 * math.exp(rng.gauss(0, 0.25)) for p in PROMPTS}
        if same_boot:
            # before and after a change on one server, in so many passes
            before = start(rng, speeds, between=0)
            logs = {p: [math.log(before(p)) for _ in range(passes)] for p in PROMPTS}
            was = Against({p: math.exp(sum(v) / passes) for p, v in logs.items()}, boot_noise=0.0)
            give = start(rng, speeds, slower, between=0)
        else:
            was, give = stored(rng, speeds, boots), start(rng, speeds, slower)
        found.append(decided(give, was, passes))
    return found


def share(found, word):
    return sum(w == word for w, _ in found)


def test_a_host_ten_percent_slower_is_called_regressed_and_an_equal_one_is_not():
    slower, equal = outcomes(0.9), outcomes(1.0)
    assert share(slower, "regressed") >= 95 and share(slower, "ok") == 0
    assert share(equal, "regressed") <= 1


def test_within_one_start_five_percent_are_enough():
    found = outcomes(0.95, passes=3, same_boot=True)
    assert share(found, "regressed") >= 95 and share(found, "ok") <= 1
    assert share(outcomes(1.0, passes=3, same_boot=True), "ok") >= 95


def test_four_times_slower_is_known_after_eight_prompts():
    assert outcomes(0.25) == [("regressed", 8)] * 100


def test_a_loss_at_the_margin_is_called_regressed_in_one_of_a_hundred():
    found = [w for i in range(4) for w in outcomes_at(0.97, seeds=range(100 * i, 100 * i + 100))]
    assert share(found, "regressed") <= 4 + 2 * math.sqrt(4), "400 runs at a level of 0.01"


def outcomes_at(slower, seeds):
    speeds = dict.fromkeys(PROMPTS, 70.0)
    exact = Against(speeds, boot_noise=0.0)
    return [decided(start(Random(seed), speeds, slower, between=0), exact, 1) for seed in seeds]


@pytest.mark.parametrize(("looks", "bound"), [([1], BOUNDS[1]), ([1, 2], BOUNDS[2]), ([1, 2, 3, 4], BOUNDS[4]),
                                              ([1, 2, 3, 4, 8], BOUNDS_PASSES[2]),
                                              ([1, 2, 3, 4, 8, 12], BOUNDS_PASSES[3])])  # fmt: skip
def test_bounds_keep_the_level_over_all_looks(looks, bound):
    numpy = pytest.importorskip("numpy")
    steps = numpy.random.default_rng(7).standard_normal((200_000, looks[-1])).cumsum(axis=1)
    over = [steps[:, k - 1] / math.sqrt(k) > bound * math.sqrt(looks[-1] / k) for k in looks]
    assert numpy.logical_or.reduce(over).mean() == pytest.approx(0.01, abs=0.001)


def test_the_first_looks_of_four_ask_for_much():
    # nominal t of 14.1, 4.19, 3.02 and 2.51 at 8, 16, 24 and 32 prompts
    for n, t in ((8, 14.1), (16, 4.19), (24, 3.02), (32, 2.51)):
        pairs = [0.01 * (-1) ** i for i in range(n)]
        se = math.sqrt(sum(x * x for x in pairs) / (n - 1) / n)
        d = decide(pairs, 32, Against({}, boot_noise=0.0))
        assert math.log(d.high / d.low) / 2 / se == pytest.approx(t, rel=0.02)


def test_one_start_of_unknown_noise_only_shows_large_losses():
    one = Against({}, boots=1)
    d = decide([math.log(0.93) + 0.01 * (-1) ** i for i in range(32)], 32, one)
    assert d.word == "undecided" and 0.1 < d.detectable < 0.2
    assert decide([math.log(0.7) + 0.01 * (-1) ** i for i in range(32)], 32, one).word == "regressed"


def test_prompts_without_a_tuned_side_decide_nothing():
    assert against([Sample("ttft_ms", 3.0, workload="battery", concurrency=1.0, prompt="a")]) is None
    assert against([Sample("output_tok_s", 70.0, workload="battery", concurrency=1.0)]) is None
    two = against(Sample("output_tok_s", v, workload="battery", concurrency=1.0, prompt="a") for v in (50.0, 72.0))
    assert two.speeds["a"] == pytest.approx(60) and two.boots == 1


def test_equal_answers_without_any_noise_are_decided_all_the_same():
    assert decide([0.0] * 8, 8, Against({}, boot_noise=0.0)).word == "ok"


def test_whoever_waits_reads_where_it_stands():
    one = Against({}, boots=1)
    open_ = decide([math.log(0.93) + 0.01 * (-1) ** i for i in range(32)], 32, one)
    assert re.fullmatch(
        r"0\.93 of the tuned speed, not yet decided \(0\.8\d to 1\.0\d; losses from 1\d% on would show\)",
        told(open_),
    )
    lost = decide([math.log(0.5) + 0.01 * (-1) ** i for i in range(32)], 32, one)
    assert told(lost) == "0.50 of the tuned speed: regressed"


def test_what_a_look_needs_is_loaded_before_anything_is_timed():
    program = (
        "import sys; from dflash_doctor.load.evidence import Evidence; from dflash_doctor.load import Against, preset\n"
        "print('scipy.stats' in sys.modules); Evidence(Against({}), preset('quick'))\n"
        "print('scipy.stats' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "True"]
