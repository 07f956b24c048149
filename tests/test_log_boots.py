"""Several server starts in one log, and how each of them went."""

from __future__ import annotations

from tests.logtext import ids, log, one, read, settings, sglang_line, stats, values, vllm_line

GOOD = log("v032_repeat_dflash_copy_k7")
BAD = log("v032_repeat_dflash_random_k7")
DIES = log("v032_fail_kv_too_big")


def test_the_last_start_is_described_and_the_earlier_ones_kept():
    facts = read(GOOD + BAD)
    assert settings(facts)["spec.draft_model"] == "/srv/models/small/dflash_random"
    (before,) = facts.earlier
    assert settings(before)["spec.draft_model"] == "/srv/models/small/dflash_copy"
    assert values(before, "accept_length") == [6.3, 6.87]
    assert set(values(facts, "accept_length")) == {1.0}
    assert (before.served, facts.served) == (True, True)


def test_what_a_start_says_does_not_depend_on_its_neighbours():
    alone, among = read(BAD), read(DIES + GOOD + BAD)
    assert [s.served for s in among.earlier] == [False, True]
    assert [(s.key, s.value) for s in among.settings] == [(s.key, s.value) for s in alone.settings]
    assert [(i.generation_tok_s, i.steady) for i in among.intervals] == [
        (i.generation_tok_s, i.steady) for i in alone.intervals
    ]
    assert [(s.id, s.template) for s in among.signals] == [(s.id, s.template) for s in alone.signals]


def test_a_supervisor_that_restarts_a_crashing_server_gives_one_start_per_try():
    facts = read(DIES * 3)
    assert [e.served for e in (*facts.earlier, facts)] == [False, False, False]


def test_a_crashing_sglang_is_restarted_before_it_prints_its_arguments():
    dies = log("sglang0523_fail_spec_dflash_random")
    facts = read(dies + dies + log("sglang0523_base"))
    assert [e.served for e in facts.earlier] == [False, False]
    assert facts.served is True


def test_warnings_before_the_arguments_belong_to_the_start_that_follows():
    text = (
        sglang_line("server_args=ServerArgs(model_path='m', tp_size=1)", "2026-11-23 09:00:00")
        + sglang_line("The server is fired up and ready to roll!", "2026-11-23 09:01:00")
        + sglang_line("Attention backend not specified. Use triton backend by default.", "2026-11-23 10:00:00")
        + sglang_line("server_args=ServerArgs(model_path='m', tp_size=2)", "2026-11-23 10:00:01")
    )
    facts = read(text)
    assert settings(facts)["attention.backend"] == "triton"
    assert "attn.backend" not in ids(facts.earlier[0])


def test_a_start_that_another_one_follows_before_it_was_ready_did_not_serve():
    banner = vllm_line("vLLM API server version 0.11.0", "11-23 09:00:00")
    facts = read(banner + banner.replace("09:00:00", "09:05:00").replace("pid=1", "pid=9"))
    assert facts.earlier[0].served is False
    assert facts.served is None, "cut off while it was starting: nobody can tell"


def test_api_servers_of_one_start_are_one_start():
    text = "".join(vllm_line("vLLM API server version 0.11.0", who=f"ApiServer_{i} pid={i}") for i in range(4))
    assert read(text).earlier == ()


def test_engine_cores_of_one_start_are_one_start():
    text = "".join(
        vllm_line(
            "Initializing a V1 LLM engine (v0.20.1) with config: model='m', speculative_config=None",
            who=f"EngineCore_DP{i} pid={i}",
        )
        for i in range(4)
    )
    assert read(text).earlier == ()


def test_a_log_that_begins_in_the_middle_has_an_earlier_start_without_a_banner():
    facts = read(stats(50.0, 1, "09:00:00") + vllm_line("vLLM API server version 0.11.0", "11-23 10:00:00"))
    assert [e.served for e in facts.earlier] == [True]
    assert facts.version == "0.11.0" and not facts.intervals


def test_an_error_that_the_server_survived_is_not_its_death():
    text = (
        vllm_line("Starting vLLM API server 0 on http://0.0.0.0:8000")
        + vllm_line("Error in chat completion", level="ERROR")
        + vllm_line("Traceback (most recent call last):", level="ERROR")
        + vllm_line("ValueError: the prompt is longer than the context", level="ERROR")
        + stats(50.0, 1, "09:20:00")
    )
    facts = read(text)
    assert facts.served is True
    assert len(ids(facts, "ERROR")) == 2


def test_a_killed_process_leaves_one_line():
    text = vllm_line("Starting vLLM API server 0 on http://0.0.0.0:8000") + "Segmentation fault (core dumped)\n"
    facts = read(text)
    assert facts.served is False
    assert one(facts, "err.native_crash").level == "CRITICAL"


def test_a_traceback_gives_its_last_line_once():
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/x.py", line 3, in load\n    import flash_attn\n'
        "ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3c105Error\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/bin/vllm", line 8, in <module>\n    sys.exit(main())\n'
        "RuntimeError: Failed to import the attention backend\n"
    )
    facts = read(vllm_line("vLLM API server version 0.11.0") + text)
    assert facts.served is False
    assert [(s.id, s.evidence.line) for s in facts.signals if s.level == "ERROR"] == [
        ("err.import", 5),
        ("unknown", 12),
    ]


def test_an_error_while_graphs_are_captured_is_a_failed_capture():
    error = (
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        ('  File "/opt/vllm/v1/worker/gpu/model_runner.py", line 968, in capture_model'),
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 130.00 MiB.",
    )
    facts = read("".join(vllm_line(e, level="ERROR") for e in error))
    assert facts.served is False
    assert one(facts, "graph.capture_failed").evidence.line == 4


def test_failed_requests_are_counted():
    line = '(APIServer pid=1) INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" {}\n'
    facts = read(vllm_line("vLLM API server version 0.11.0") + line.format("500 Internal Server Error") * 3)
    assert (one(facts, "api.http_error").count, one(facts, "api.http_error").fields["status"]) == (3, "500")
    assert read(vllm_line("x") + line.format("200 OK")).served is True
