"""A bundle names nobody, and a diagnosis of it finds what it found before."""

from __future__ import annotations

import gzip
import tarfile
import time
from pathlib import Path

import pytest
import yaml

from dflash_doctor import bundle, collect, compare, diagnose, parse, parsers
from dflash_doctor.baselines import Store, snapshot
from dflash_doctor.model import Capture, Gap
from tests.command_line import refused, run

ROOT = Path(__file__).parent.parent
CAPTURES = ROOT / "tests" / "captures"
PAIRS = yaml.safe_load((CAPTURES / "pairs.yaml").read_text(encoding="utf-8"))
READS = [pattern for p in parsers.ALL for pattern in p.READS]

LOG = """\
May 06 10:15:27 gpu7 vllm[2101]: INFO 05-06 10:15:27 [api_server.py:1] Starting vLLM API server on http://10.20.30.40:8000
gpu7:132:301 [0] NCCL INFO NET/Socket : Using [0]eth0:10.20.30.40<0> [1]ib0:fd12:3456::7<0>
INFO 05-06 10:15:28 [config.py:1] model=/home/erika/models/Qwen3.6-27B, cuDNN version 9.10.2.21, nvshmem==3.3.24.1
INFO 05-06 10:15:29 [logger.py:42] Received request cmpl-1: prompt: 'Why was Erika\\'s offer "refused"?', params: \
SamplingParams(n=1), prompt_token_ids: [9906, 11, 1917], lora_request: None.
INFO 05-06 10:15:30 [x.py:1] body {"messages": [{"role": "user", "content": "our margin is 12 percent"}], "stop": []}
INFO 05-06 10:15:30 [x.py:1] body "{\\"role\\": \\"user\\", \\"content\\": \\"the secret plan\\"}"
[2026-05-06 10:15:31 TP0] Finish: obj=GenerateReqInput(text='今天天气', input_ids=[1, 2]), out={'text': 'It is fine.'}
INFO: 10.20.30.41:5555 - "POST /v1/completions HTTP/1.1" 200 OK, asked by erika@corp.example.net
INFO [http.py] login with hf_AbCdEfGhIjKlMnOpQrStUvWxYz01 at https://erika:geheim99@gpu7.corp.example.net/x
GPU 0: NVIDIA H100 (UUID: GPU-1b2c3d4e-1111-2222-3333-444455556666) Serial Number: 1652923012345, mac 3c:ec:ef:12:34:56
INFO docs at https://docs.vllm.ai/en/latest and http://127.0.0.1:8000
"""
FILES = {
    "server.log": LOG,
    "capture.yaml": "host: erika@gpu7.corp.example.net\nnote: from gpu7\n",
    "environ": "VLLM_API_KEY=topsecret1234567890\nHOSTNAME=gpu7\nUSER=erika\nCUDA_VISIBLE_DEVICES=0\n",
    "cmdline": "vllm serve /home/erika/models/Qwen3.6-27B --api-key topsecret1234567890 --host 10.20.30.40",
    "load.json": '{"generated_texts": ["first answer", "second answer"], "input_lens": [3, 4]}',
    "packages.txt": "nvidia-cublas-cu12==12.8.4.1\nvllm==0.33.0\n",
}
NAMED = (
    "erika", "Erika", "gpu7", "corp.example", "10.20.30", "fd12", "topsecret", "geheim", "hf_Ab", "refused", "margin",
    "secret plan", "天气", "is fine", "9906", "first answer", "second answer", "1b2c3d4e", "1652923", "3c:ec",
)  # fmt: skip


def shared(files, gaps=(), **more):
    return bundle.redacted(
        Capture("c", {k: v if isinstance(v, bytes) else v.encode() for k, v in files.items()}, gaps),
        collect.hider(), READS, **more,
    )  # fmt: skip


def text(done, name="server.log"):
    return done.capture.files[name].decode("utf-8")


def test_nobody_is_named_and_nothing_said_is_left():
    done = shared(FILES, (Gap("gpu", "no answer from gpu7"),))
    every = "\n".join(data.decode() for data in done.capture.files.values()) + done.capture.gaps[0].why
    assert not [word for word in NAMED if word in every]
    assert done.capture.gaps[0].why == "no answer from host-1"


def test_what_a_diagnosis_rests_on_stays():
    done = shared(FILES)
    log = text(done)
    for kept in (
        "models/Qwen3.6-27B", "9.10.2.21", "nvshmem==3.3.24.1", "127.0.0.1:8000", "https://docs.vllm.ai/en/latest",
        "10:15:27", "SamplingParams(n=1)", "NCCL INFO NET/Socket", "[prompt of 33 characters]", '"role": "user"',
    ):  # fmt: skip
        assert kept in log, kept
    assert text(done, "packages.txt") == FILES["packages.txt"]
    assert "CUDA_VISIBLE_DEVICES=0" in text(done, "environ") and '"input_lens": [3, 4]' in text(done, "load.json")


def test_the_same_name_has_the_same_stand_in_everywhere():
    done = shared(FILES)
    alias = {r.original: r.alias for r in done.replaced}
    assert alias["10.20.30.40"] in text(done, "cmdline") and f"http://{alias['10.20.30.40']}:8000" in text(done)
    assert f"{alias['gpu7']}:132:301 [0] NCCL" in text(done) and f"HOSTNAME={alias['gpu7']}" in text(done, "environ")
    assert f"/home/{alias['erika']}/models" in text(done) and f"/home/{alias['erika']}/models" in text(done, "cmdline")
    assert alias["10.20.30.40"] != alias["10.20.30.41"]


def test_the_list_in_the_bundle_counts_and_names_no_original():
    done = shared(FILES)
    listed = yaml.safe_load(text(done, bundle.LIST))["replaced"]
    kinds = {row["what"] for row in listed}
    assert kinds == {
        "GPU id", "IP address", "MAC address", "host name", "mail address", "prompt text", "secret", "serial number",
        "user name",
    }  # fmt: skip
    assert all(row["times"] >= 1 and row["in"] for row in listed)


def test_a_bundle_of_a_bundle_changes_no_prompt_and_no_name():
    once = shared(FILES)
    twice = shared({k: v for k, v in once.capture.files.items() if k != bundle.LIST})
    kinds = {r.kind for r in twice.replaced}
    assert not kinds & {"secret", "prompt text", "user name"}


def test_a_name_that_is_a_common_word_is_told_rather_than_torn_out_of_the_log():
    done = shared({"server.log": "INFO gpu memory 3 of 8 GPU blocks on gpu\n", "capture.yaml": "host: gpu\n"})
    assert done.doubts == ("gpu",) and "gpu memory" in text(done)


def test_files_that_no_diagnosis_reads_stay_behind():
    done = shared({"server.log": "INFO x\n", "id_rsa": "-----BEGIN", "host.json": b"\0\1\2\3" * 9})
    assert set(done.capture.files) == {"server.log", bundle.LIST}
    assert [g.what for g in done.left_behind] == ["host.json", "id_rsa"]


def test_text_of_windows_is_redacted_too():
    done = shared({"server.log": "at http://gpu7.corp.example.net/ \r\n".encode("utf-16")})
    assert "gpu7" not in text(done) and "http://host-" in text(done)


def test_text_that_is_no_utf_8_keeps_its_bytes():
    assert shared({"server.log": b"INFO \xff\xfe\x80 10.1.2.3\n"}).capture.files["server.log"] == (
        b"INFO \xff\xfe\x80 192.0.2.1\n"
    )


def test_a_long_log_is_redacted_in_blocks_with_names_found_anywhere_in_it(tmp_path):
    path = tmp_path / "server.log"
    path.write_bytes(b"INFO on titan9 10.1.2.3\n" * 90_000 + b"titan9:1:2 [0] NCCL INFO x\n")
    made = bundle.redacted(Capture("c", {}, (), {"server.log": path}), collect.hider(), READS, tmp_path)
    out = made.capture.large["server.log"].read_bytes()
    assert b"titan9" not in out and out.startswith(b"INFO on host-1 192.0.2.1\n") and out.count(b"\n") == 90_001


@pytest.mark.parametrize("piece", ["a", "1.", "::", "prompt: '", 'content\\": \\"', "a@", "/home/", "x://", "'", "\\"])
def test_hostile_text_takes_linear_time(piece):
    begin = time.perf_counter()
    shared({"server.log": piece * (200_000 // len(piece))})
    assert time.perf_counter() - begin < 5


def found(capture, was):
    """What a diagnosis says that does not quote the host."""
    now = parse.parse(capture)
    served = [boot for boot in now.earlier if boot.served is not False]
    held = compare.compare(now, served[-1], "previous boot") if was is None and served else compare.compare(now, was)
    d = diagnose.diagnose(held, "x")
    numbers = [(x.metric, x.workload, x.was, x.now, x.verdict) for x in d.comparison.deltas]
    causes = [(f.cause, f.severity, f.confidence, f.impact, f.effects) for f in d.findings]
    return d.verdict, d.slowdown, causes, numbers, [x.key for x in d.comparison.drifts], d.gaps


def same(path, was, tmp_path):
    before = collect.load(path)
    collect.save(bundle.redacted(before, collect.hider(), READS).capture, tmp_path / "bundle.tar.gz")
    assert found(collect.load(tmp_path / "bundle.tar.gz"), was) == found(before, was)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p["regressed"])
def test_a_diagnosis_of_the_bundle_finds_the_same(pair, tmp_path):
    same(CAPTURES / pair["regressed"], parse.parse(collect.load(CAPTURES / pair["good"])), tmp_path)


@pytest.mark.parametrize("path", [p for p in sorted((ROOT / "examples").iterdir()) if p.is_dir()], ids=lambda p: p.name)
def test_a_diagnosis_of_an_example_finds_the_same(path, tmp_path):
    same(path, snapshot(Store().load("qwen3.6-27b.a6000x2.sglang-mtp")), tmp_path)


def test_a_server_that_did_not_start_is_found_the_same(tmp_path):
    same(CAPTURES / "v032_fail_drafter_wrong_size", None, tmp_path)


def test_the_command_writes_an_archive_and_says_what_it_replaced(tmp_path):
    folder = tmp_path / "seen"
    folder.mkdir()
    for name, said in FILES.items():
        (folder / name).write_text(said, encoding="utf-8")
    done = run("bundle", f"{folder}/", "-o", tmp_path / "b.tar.gz")
    assert done.exit_code == 0, done.output
    assert "host name  gpu7.corp.example.net -> host-" in done.stdout and "the bundle is in" in done.stderr
    assert "topsecret" not in done.output and "margin" not in done.output
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        assert "b/replaced.yaml" in tar.getnames()
    assert b"erika" not in gzip.decompress((tmp_path / "b.tar.gz").read_bytes())
    assert "is there already" in refused("bundle", f"{folder}/", "-o", tmp_path / "b.tar.gz")
