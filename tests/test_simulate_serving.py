"""The simulated engine does what its scenario says, over a clock that is handed in."""

from __future__ import annotations

import pytest

from dflash_doctor.simulate import scenario as scenarios
from dflash_doctor.simulate.engine import live
from dflash_doctor.simulate.logs import Lines
from dflash_doctor.simulate.pace import Pace, at, reach, spread_out
from dflash_doctor.simulate.prometheus import render
from dflash_doctor.simulate.serving import PrefixCache, Serving, answer, tokens_of
from dflash_doctor.simulate.tally import Sums, Tally

PLAIN = {"noise": 0.0, "boot_noise": 0.0}


def tuned(**changes):
    quiet = {"timing": PLAIN, "acceptance": {"spread": 0.0}, "history": [], "prefix_cache": True}
    return scenarios.vary(scenarios.load("a6000-tuned"), **scenarios.merge(quiet, changes))


def run(serving, tally, jobs, until=1e9):
    """Serve these jobs to their end; the steps."""
    for job in jobs:
        serving.submit(job)
    steps, now = [], 0.0
    while (end := serving.begin(now)) is not None and now < until:
        step = serving.end()
        tally.observe(step)
        steps.append(step)
        now = end
    return steps


def test_decode_speed_is_tokens_per_step_over_step_time():
    scenario = tuned()
    serving, tally = Serving(scenario), Tally(3)
    job = serving.job("write a story", 2000, 0.0)
    run(serving, tally, [job])
    assert (job.made - 1) / (job.last - job.first) == pytest.approx(3.2 / 0.0435, rel=0.01)
    assert 1 + tally.sums.accepted / tally.sums.drafts == pytest.approx(3.2, rel=0.005)


def test_the_regressed_story_gives_its_published_rates():
    scenario = scenarios.vary(scenarios.load("a6000-dflash"), timing=PLAIN, history=[])
    for concurrency, rate in ((1, 17.7), (2, 30.4)):
        serving, tally = Serving(scenario), Tally(15)
        jobs = [serving.job(f"prompt {i}", 1000, 0.0) for i in range(concurrency)]
        steps = run(serving, tally, jobs)
        seconds = steps[-1].end - jobs[0].first
        assert tally.sums.generated / seconds == pytest.approx(rate, rel=0.02)
        assert tally.sums.accepted / (15 * tally.sums.drafts) == pytest.approx(0.011, abs=0.001)


def test_the_counters_agree_with_what_was_given_out():
    serving, tally = Serving(tuned()), Tally(3)
    jobs = [serving.job(f"prompt {i} of several", 50 + i, 0.0) for i in range(5)]
    steps = run(serving, tally, jobs)
    chunks = [c for s in steps for c in s.chunks]
    assert tally.sums.generated == sum(c.tokens for c in chunks) == sum(50 + i for i in range(5))
    assert tally.sums.drafts == sum(1 for c in chunks if c.gap is not None)
    assert tally.sums.per_position[0] >= tally.sums.per_position[1] >= tally.sums.per_position[2]
    assert sum(tally.sums.per_position) == tally.sums.accepted
    assert tally.ttft.count == tally.finished["length"] == 5
    assert tally.itl.count == tally.sums.drafts
    assert tally.running == tally.waiting == 0


def test_two_runs_of_one_seed_are_alike_and_two_boots_are_not():
    def gaps(boot):
        serving, tally = Serving(scenarios.load("a6000-tuned"), boot), Tally(3)
        return [c.gap for s in run(serving, tally, [serving.job("hello", 40, 0.0)]) for c in s.chunks]

    assert gaps(0) == gaps(0)
    assert gaps(0) != gaps(1)


def test_noise_moves_single_steps_and_leaves_the_mean():
    scenario = tuned(timing={"noise": 0.1})
    pace = Pace(scenario.timing, seed=5)
    steps = [pace.step_s(1, 100) for _ in range(4000)]
    assert max(steps) > 1.2 * min(steps)
    assert sum(steps) / len(steps) == pytest.approx(0.0435, rel=0.01)


def test_more_requests_than_the_limit_wait():
    serving, tally = Serving(tuned(max_seqs=2)), Tally(3)
    jobs = [serving.job(f"prompt {i}", 30, 0.0) for i in range(4)]
    steps = run(serving, tally, jobs)
    assert max(s.decoded for s in steps) == 2
    assert max(s.waiting for s in steps) == 2
    assert tally.queue.sum > 0


def test_a_full_cache_sends_the_youngest_back():
    scenario = scenarios.vary(
        scenarios.load("a6000-dflash"), timing=PLAIN, history=[], kv_tokens=400, max_seqs=8, model={"context": 300}
    )
    serving, tally = Serving(scenario), Tally(15)
    jobs = [serving.job(f"prompt {i} " * 10, 200, 0.0) for i in range(3)]
    run(serving, tally, jobs)
    assert tally.sums.preemptions > 0
    assert all(job.made == 200 for job in jobs), "all are answered in the end"


def test_a_prefix_that_was_seen_is_not_computed_again():
    text = "a long system prompt " * 40
    for on in (True, False):
        serving, tally = Serving(tuned(prefix_cache=on)), Tally(3)
        run(serving, tally, [serving.job(text + "one", 4, 0.0)])
        run(serving, tally, [serving.job(text + "two", 4, 0.0)])
        assert (tally.sums.hits > 200) is on
        assert (tally.sums.queries > 0) is on


def test_the_prefix_cache_forgets_the_longest_unused():
    cache = PrefixCache(capacity=32, page=16)
    old, new = tokens_of("old " * 20)[:16], tokens_of("new " * 40)[:32]
    cache.keep(old)
    assert cache.hit(old) == 16
    cache.keep(new)
    assert cache.hit(new) == 32 and cache.hit(old) == 0


def test_a_client_that_leaves_takes_its_request_away():
    serving = Serving(tuned())
    jobs = [serving.job(f"prompt {i}", 30, 0.0) for i in range(2)]
    for job in jobs:
        serving.submit(job)
    assert serving.begin(0.0)
    serving.end()
    assert serving.begin(1.0)
    assert serving.cancel(jobs[0])
    assert [c.job for c in serving.end().chunks] == [jobs[1]]
    assert not serving.cancel(jobs[0]), "it is gone already"


def test_kinds_of_prompts_differ_in_acceptance_and_in_length():
    scenario = tuned(kinds={"code": {"when": "```", "length": 4.0, "stop_after": 60}})
    serving, tally = Serving(scenario), Tally(3)
    code, prose = serving.job("complete ```def", 500, 0.0), serving.job("tell", 500, 0.0)
    run(serving, tally, [code, prose])
    assert (code.made, code.finish, prose.made, prose.finish) == (60, "stop", 500, "length")
    assert code.made / code.verifies > 3.7 > prose.made / prose.verifies


def test_acceptance_may_fall_with_the_context():
    scenario = tuned(acceptance={"falls": {"after": 400, "to": 0.1}})
    serving, tally = Serving(scenario), Tally(3)
    run(serving, tally, [serving.job("go", 380, 0.0)])
    before = tally.sums.accepted / tally.sums.drafts
    run(serving, tally, [serving.job("word " * 400, 300, 0.0)])
    assert tally.sums.accepted / tally.sums.drafts < 0.8 * before


def test_step_times_lie_on_lines_between_the_scripted_ones():
    table = {1: 40.0, 4: 46.0, 8: 60.0}
    assert [at(table, n) for n in (1, 2, 4, 6, 8, 12)] == [40.0, 42.0, 46.0, 53.0, 60.0, 74.0]
    assert at({1: 40.0}, 9) == 40.0


def test_a_length_becomes_chances_that_give_it():
    assert 1 + sum(reach(spread_out(None, 3.2, 15))) == pytest.approx(3.2, abs=1e-6)
    assert spread_out([0.5, 0.2], None, 4) == (0.5, 0.2, 0.2, 0.2)


def test_the_answer_to_a_prompt_is_always_the_same_text():
    assert answer(99, 0, 12) == answer(99, 0, 5) + answer(99, 5, 7)
    assert len(answer(99, 0, 12).split()) == 12
    assert answer(99, 0, 12) != answer(98, 0, 12)


def test_equal_beginnings_have_equal_tokens():
    one, two = tokens_of("same start of it, then one"), tokens_of("same start of it, then two")
    assert one[:6] == two[:6] and one != two
    assert len(tokens_of("word " * 100)) == 130


def history_of(name, **changes):
    scenario = scenarios.vary(scenarios.load(name), **changes) if changes else scenarios.load(name)
    said = []
    serving = Serving(scenario)
    tally = Tally(serving.depth)
    live(serving, tally, Lines(scenario, tally, said.append, 1000.0), scenario, 1000.0)
    return scenario, tally, "".join(said)


def test_past_hours_are_in_the_log_before_we_come():
    _, tally, text = history_of("a6000-dflash")
    assert "Engine 000: Avg prompt throughput:" in text and "Running: 2 reqs, Waiting: 0 reqs" in text
    assert "Mean acceptance length: 1.17" in text and "Avg Draft acceptance rate: 1.1%" in text
    assert tally.running == 0 and tally.sums.generated > 1000
    _, _, text = history_of("a6000-tuned")
    assert "Decode batch, #running-req: 2" in text and "cuda graph: True" in text


def test_a_quiet_vllm_says_so_once():
    _, _, text = history_of("a6000-dflash", history=[{"seconds": 12, "output_tokens": 50, "idle_s": 300}])
    assert text.count("Avg generation throughput: 0.0 tokens/s") == 1


@pytest.mark.parametrize(
    ("version", "has", "has_not"),
    [
        ("0.20.1", "vllm:prefix_cache_hits_total{", "vllm:time_per_output_token_seconds_sum"),
        ("0.8.5", "vllm:gpu_prefix_cache_hits_total{", "vllm:inter_token_latency_seconds_sum"),
        ("0.32.0", 'kv_cache_size_tokens="218112"', "vllm:gpu_cache_usage_perc"),
    ],
)
def test_each_vllm_exposes_its_own_names(version, has, has_not):
    scenario, tally, _ = history_of("a6000-dflash", version=version)
    text = render(scenario, tally, Sums(), 0.0, 0.0)
    assert has in text and has_not not in text


def test_the_exposition_is_what_prometheus_reads():
    from prometheus_client.parser import text_string_to_metric_families

    for name in ("a6000-dflash", "a6000-tuned"):
        scenario, tally, _ = history_of(name)
        families = {f.name: f for f in text_string_to_metric_families(render(scenario, tally, tally.sums, 70.0, 1.0))}
        prefix = scenario.engine
        ttft = families[f"{prefix}:time_to_first_token_seconds"].samples
        count = next(s.value for s in ttft if s.name.endswith("_count"))
        assert count == next(s.value for s in ttft if s.labels.get("le") == "+Inf") > 0
