"""Every wrapping people paste a log in: the facts inside are the same."""

from __future__ import annotations

import json
import re
import sys

import pytest

from dflash_doctor.parsers import logs
from tests.logtext import ids, log, one, read, settings, values, vllm_line

VLLM = log("v032_repeat_dflash_random_k7")
SGLANG = log("sglang0523_spec_standalone_good_k4")
BOTH = pytest.mark.parametrize("plain", [VLLM, SGLANG], ids=["vllm", "sglang"])


def times(lines: list[str]) -> list[int]:
    """When each line was written: seconds of the first of December, by the engine's own stamps."""
    now, out = 4 * 3600, []
    for line in lines:
        if m := re.search(r"12-01 (\d\d):(\d\d):(\d\d)", line):
            now = int(m[1]) * 3600 + int(m[2]) * 60 + int(m[3])
        out.append(now)
    return out


def clock(t: int) -> str:
    return f"{t // 3600:02d}:{t // 60 % 60:02d}:{t % 60:02d}"


def stamp(t: int) -> str:
    return f"2026-12-01T{clock(t)}.123456789Z"


def syslog(t: int) -> str:
    return f"Dec  1 {clock(t)} gpu7"


CUT = 200  # characters; docker and containerd cut lines over 16 KiB


def docker_json(n: int, line: str) -> str:
    parts = [line[i : i + CUT] for i in range(0, max(1, len(line)), CUT)]
    parts[-1] += "\n"
    return "\n".join(json.dumps({"log": p, "stream": "stderr", "time": stamp(n)}) for p in parts)


def cri(n: int, line: str) -> str:
    parts = [line[i : i + CUT] for i in range(0, max(1, len(line)), CUT)]
    tags = ["P"] * (len(parts) - 1) + ["F"]
    return "\n".join(f"{stamp(n)} stderr {t} {p}" for t, p in zip(tags, parts, strict=True))


def journald_json(n: int, line: str) -> str:
    message = list(line.encode()) if "█" in line else line
    return json.dumps({"MESSAGE": message, "_PID": "61", "__REALTIME_TIMESTAMP": str(1796083200000000 + n * 1000000)})


def coloured(n: int, line: str, esc: str = "\x1b") -> str:
    # 0.11 colours the process prefix, also in files
    return re.sub(r"^(\(\w+ pid=\d+\))", lambda m: f"{esc}[1;36m{m[1]}{esc}[0;0m", line)


WRAPPINGS = {
    "docker logs -t": lambda n, line: f"{stamp(n)} {line}",
    "docker compose": lambda n, line: f"engine-1  | {line}",
    "compose with stamps": lambda n, line: f"engine-1  | {stamp(n)} {line}",
    "docker json-file": docker_json,
    "containerd": cri,
    "kubectl --timestamps": lambda n, line: f"{stamp(n)} {line}",
    "kubectl --prefix": lambda n, line: f"[pod/engine-0/server] {line}",
    "kubectl --prefix --timestamps": lambda n, line: f"[pod/engine-0/server] {stamp(n)} {line}",
    "journald short": lambda n, line: f"{syslog(n)} engine[61]: {line}",
    "journald short-iso": lambda n, line: f"2026-12-01T{clock(n)}+0000 gpu7 engine[61]: {line}",
    "journald json": journald_json,
    "syslog with priority": lambda n, line: f"<30>{syslog(n)} engine[61]: {coloured(n, line, '#033')}",
    "pm2": lambda n, line: f"0|engine  | {line}",
    "grep -n": lambda n, line: f"server.log:{n}:{line}",
    "colours": coloured,
    "colours that lost their ESC": lambda n, line: coloured(n, line, ""),
    "colours shown by a pager": lambda n, line: coloured(n, line, "^["),
    "Ray": lambda n, line: f"\x1b[36m(RayWorkerWrapper pid=2531, ip=10.0.0.2)\x1b[0m {line}",
}


def facts_of(text: str) -> dict[str, object]:
    facts = read(text)
    return {
        "engine": facts.engine,
        "version": facts.version,
        "served": facts.served,
        "settings": [(s.key, s.value, s.said) for s in facts.settings],
        "signals": [(s.id, s.level, s.template, s.count, dict(s.fields)) for s in facts.signals if s.id != "unknown"],
        "intervals": [(i.generation_tok_s, i.running, i.accept_length, i.steady, i.graph) for i in facts.intervals],
        "samples": [(s.metric, s.value, s.concurrency) for s in facts.samples],
    }


@BOTH
@pytest.mark.parametrize("name", WRAPPINGS)
def test_a_wrapped_log_says_the_same(plain, name):
    lines = plain.rstrip("\n").split("\n")
    if name == "grep -n":  # raw prints in the middle of a grep cannot be told from it
        lines = [line for line in lines if re.match(r"\(\w+ pid=|\[2026", line)]
        plain = "\n".join(lines)
    wrapped = "\n".join(WRAPPINGS[name](t, line) for t, line in zip(times(lines), lines, strict=True))
    assert facts_of(wrapped) == facts_of(plain)


@BOTH
@pytest.mark.parametrize("name", WRAPPINGS)
def test_a_large_wrapped_log_says_the_same(plain, name, monkeypatch):
    if name == "grep -n":
        plain = "\n".join(line for line in plain.split("\n") if re.match(r"\(\w+ pid=|\[2026", line))
    # a line so long that it is cut: its second part holds what follows the padding
    plain = re.sub(r"(?:non-default args: |server_args=)\{", rf"\g<0>'pad': '{'x' * 17_000}', ", plain, count=1)
    lines = plain.rstrip("\n").split("\n")
    monkeypatch.setattr(sys.modules[__name__], "CUT", 16 << 10)
    wrapped = "\n".join(WRAPPINGS[name](t, line) for t, line in zip(times(lines), lines, strict=True))
    monkeypatch.setattr(logs, "SMALL", 0)
    assert facts_of(wrapped) == facts_of(plain)


@BOTH
@pytest.mark.parametrize("change", ["\r\n", "bom", "both"])
def test_a_paste_from_windows_says_the_same(plain, change):
    text = ("\ufeff" if change != "\r\n" else "") + (plain if change == "bom" else plain.replace("\n", "\r\n"))
    assert facts_of(text) == facts_of(plain)


def test_the_line_number_is_that_of_the_pasted_text():
    # a cut line is found where it begins
    long = vllm_line("vLLM API server version 0.11.0 " + "x" * 300).rstrip("\n")
    text = (
        docker_json(0, "first")
        + "\n"
        + docker_json(1, long)
        + "\n"
        + docker_json(2, vllm_line("vLLM is using nccl==2.27.5").strip())
    )
    assert one(read(text), "comm.nccl_version").evidence.line == 4


def test_the_clock_of_the_wrapping_wins():
    line = vllm_line("vLLM is using nccl==2.27.5", at="05-21 21:31:40").strip()
    assert one(read(f"2026-05-21T19:31:40Z {line}\n"), "comm.nccl_version").time == 1779391900.0


def test_a_stamp_without_a_year_counts_from_the_start_and_runs_over_new_year():
    text = vllm_line("vLLM API server version 0.11.0", at="12-31 23:59:58") + vllm_line(
        "vLLM is using nccl==2.27.5", at="01-01 00:00:03"
    )
    assert one(read(text), "comm.nccl_version").time == 5.0


@pytest.mark.parametrize(
    "line",
    [
        '{"asctime": "2026-11-23 09:14:07,123", "levelname": "WARNING", "name": "vllm.x", "message": "MSG"}',
        '{"timestamp": "2026-11-23T09:14:07Z", "level": "warning", "msg": "MSG"}',
        '{"time": 1795000000.5, "severity": "WARN", "message": "MSG", "kubernetes": {"pod_name": "vllm-0"}}',
    ],
)
def test_json_logs_carry_their_level_beside_the_message(line):
    text = line.replace("MSG", "Skipping CUDA graph capture. To turn on CUDA graph capture, ensure")
    facts = read(vllm_line("vLLM API server version 0.33.0") + text + "\n")
    assert one(facts, "graph.capture_skipped").level == "WARNING"


def test_a_dict_that_is_no_log_line_is_left_alone():
    assert ids(read('{"a": 1}\n' + vllm_line("vLLM is using nccl==2.27.5"))) == ["comm.nccl_version"]


def test_ray_says_how_often_it_swallowed_a_line():
    line = "(RayWorkerWrapper pid=2531, ip=10.0.0.2) " + vllm_line("vLLM is using nccl==2.27.5").strip()
    text = line + " [repeated 7x across cluster] (Ray deduplicates logs by default.)\n"
    assert one(read(text), "comm.nccl_version").count == 7


def test_a_logged_line_glued_to_a_raw_one_is_two():
    glued = "See https://nanobind.readthedocs.io/en/latest/refleaks.html" + vllm_line("vLLM is using nccl==2.27.5")
    assert settings(read(glued))["comm.nccl_version"] == "2.27.5"


def test_an_operators_own_prefix_does_no_harm():
    text = "[blue-7] " + vllm_line("vLLM is using nccl==2.27.5")
    assert ids(read(text)) == ["comm.nccl_version"]


def test_a_progress_bar_counts_with_its_last_state():
    bar = "Capturing CUDA graphs (decode, FULL):  {}%|███   | {}/35 [00:01<00:02, 11.2it/s]"
    text = (
        vllm_line("vLLM API server version 0.20.1")
        + "\r".join(bar.format(n, n * 35 // 100) for n in (0, 40, 80))
        + "\n"
    )
    progress = one(read(text), "graph.capture_progress")
    assert (progress.fields["done"], progress.count) == ("28", 1)


def test_two_servers_in_one_compose_log_are_not_mixed():
    from tests.logtext import stats

    busy = vllm_line("vLLM API server version 0.20.1") + "".join(stats(50.0, 1, f"09:15:{s:02d}") for s in (0, 10, 20))
    idle = vllm_line("vLLM API server version 0.19.0")
    text = "".join(f"a-1  | {x}\n" for x in idle.splitlines()) + "".join(f"b-1  | {x}\n" for x in busy.splitlines())
    facts = read(text)
    assert facts.version == "0.20.1" and values(facts, "output_tok_s", 1.0) == [50.0, 50.0, 50.0]
    assert [g.why for g in facts.gaps] == ["this log holds several servers; read b-1, not a-1"]
