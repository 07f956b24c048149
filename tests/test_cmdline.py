"""However a server was started, the engine's own words are found and read."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.model import Unreadable
from dflash_doctor.parsers import cmdline

A6000 = (
    "vllm serve /models/Qwen3.6-27B --tensor-parallel-size 2 --max-model-len 32768 --gpu-memory-utilization 0.90 "
    "--attention-backend flash_attn --max-num-batched-tokens 32768 --trust-remote-code --speculative-config "
    '\'{"method":"dflash","model":"/models/Qwen3.6-27B-DFlash","num_speculative_tokens":15}\' --port 8000'
)
SGLANG = (
    "python -m sglang.launch_server --model-path /models/Qwen3.6-27B --tp-size 2 --mem-fraction-static 0.85 "
    "--context-length 32768 --attention-backend flashinfer --speculative-algorithm NEXTN --speculative-num-steps 3 "
    "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --cuda-graph-max-bs 16 --port 30000"
)


def parse(text: str):
    return cmdline.parse(text, "cmdline")


def settings(text: str) -> dict:
    return {s.key: s.value for s in parse(text).settings}


def test_a_line_as_typed_is_read():
    facts = parse(A6000)
    found = {s.key: s for s in facts.settings}
    assert facts.engine == "vllm" and facts.version is None
    assert found["parallel.tp"].value == 2
    assert found["spec.method"].value == "dflash" and found["spec.depth"].value == 15
    assert found["spec.draft_model"].value == "/models/Qwen3.6-27B-DFlash"
    assert found["attention.backend"].evidence.text == "--attention-backend flash_attn"
    assert all(s.said == "asked" for s in facts.settings)


def test_arguments_ended_by_nul_are_read_as_they_are():
    words = ["/opt/venv/bin/python", "/opt/venv/bin/vllm", "serve", "/models/a b", "-tp", "2", "--enforce-eager", ""]
    found = settings("\0".join(words))
    assert found["model.path"] == "/models/a b"
    assert (found["parallel.tp"], found["cudagraph.mode"]) == (2, "none")


def test_of_several_processes_the_server_is_read():
    processes = [
        ["VLLM::EngineCore"],
        [
            "/usr/bin/python3",
            "-c",
            "from multiprocessing.spawn import spawn_main; spawn_main()",
            "--multiprocessing-fork",
        ],
        ["vllm", "bench", "serve", "--model", "m", "--num-prompts", "10"],
        ["vllm", "serve", "/m", "--max-num-seqs", "4"],
    ]
    text = "".join("\0".join(p) + "\0\n" for p in processes)
    assert settings(text) == {"model.path": "/m", "sched.max_seqs": 4}


@pytest.mark.parametrize(
    "line",
    [
        "nohup vllm serve /m -tp 2 > /var/log/vllm.log 2>&1 &",
        "CUDA_VISIBLE_DEVICES=0,1 vllm serve /m -tp 2",
        "env -u FOO CUDA_VISIBLE_DEVICES=0,1 nice -n 5 vllm serve /m --tensor_parallel_size=2",
        "/opt/venv/bin/python3 -m vllm.entrypoints.openai.api_server --model /m --tensor-parallel-size=2",
        "python /usr/lib/python3/dist-packages/vllm/entrypoints/openai/api_server.py --model=/m -tp=2",
        'bash -lc "source /opt/venv/bin/activate && exec vllm serve /m -tp 2"',
        "srun --ntasks=1 --gpus=2 bash -c 'cd /w; vllm serve /m -tp 2'",
        "sudo -u llm taskset -c 0-15 vllm serve /m -tp 2",
        "docker run --rm -it --gpus all --ipc=host -p 8000:8000 -v ~/.cache/vllm:/root/.cache/vllm --name vllm "
        "vllm/vllm-openai:latest --model /m --tensor-parallel-size 2",
        "podman run -d --device nvidia.com/gpu=all registry.lan/ai/vllm-openai@sha256:0123abcd /m -tp 2",
        "docker exec -it serving vllm serve /m -tp 2",
        "docker compose run --rm inference vllm serve /m -tp 2",
        "kubectl exec -n ai deploy/llm -- vllm serve /m -tp 2",
        "uv run --with vllm vllm serve /m -tp 2",
        "conda run -n serve vllm serve /m -tp 2",
        "ssh gpu7 'vllm serve /m -tp 2'",
        "nsys profile -o /tmp/x --trace=cuda vllm serve /m -tp 2",
        "python -m vllm.entrypoints.cli.main serve /m -tp 2",
        "root 4242 1 12 Oct01 ? 01:02:03 /opt/venv/bin/python3 /opt/venv/bin/vllm serve /m -tp 2\n"
        "root 4300 4242 90 Oct01 ? 09:00:00 VLLM::EngineCore",
        "vllm serve \\\n  /m \\\n  -tp 2   # two cards\n",
        "# tuned on Friday\nexport HF_HUB_OFFLINE=1\nvllm serve /m -tp 2\n",
        "set -e\ncd /srv\nvllm serve /m --tensor-parallel 2",
    ],
)
def test_wrappers_are_read_through(line):
    facts = parse(line)
    found = {s.key: s.value for s in facts.settings}
    assert facts.engine == "vllm"
    assert (found["model.path"], found["parallel.tp"]) == ("/m", 2)


@pytest.mark.parametrize(
    "line",
    [
        SGLANG,
        SGLANG.replace("python -m sglang.launch_server", "sglang serve"),
        "docker run --gpus all -v /models:/models lmsysorg/sglang:v0.5.10-cu129 " + SGLANG,
        SGLANG.replace(" --tp-size 2", " --tp 2").replace("--mem-fraction-static", "--mem-fraction"),
    ],
)
def test_sglang_is_read_alike(line):
    found = settings(line)
    assert (found["spec.method"], found["spec.depth"], found["parallel.tp"], found["mem.fraction"]) == (
        "mtp",
        3,
        2,
        0.85,
    )


def test_variables_set_before_and_in_front_of_the_command_are_asked_for():
    found = settings("export NCCL_P2P_DISABLE=1 NCCL_DEBUG=INFO\nOMP_NUM_THREADS=8 vllm serve /m\n")
    assert (found["env.NCCL_P2P_DISABLE"], found["env.OMP_NUM_THREADS"]) == ("1", "8")


def test_a_container_has_the_variables_it_is_given_not_those_of_the_host():
    found = settings(
        "export NCCL_P2P_DISABLE=1\n"
        "docker run -e VLLM_USE_FLASHINFER_SAMPLER=0 --env=NCCL_CUMEM_ENABLE=0 -eOMP_NUM_THREADS=8 -e HF_TOKEN=hf_x "
        "vllm/vllm-openai:v0.20.1 --model /m"
    )
    assert "env.NCCL_P2P_DISABLE" not in found
    assert (found["env.NCCL_CUMEM_ENABLE"], found["env.OMP_NUM_THREADS"]) == ("0", "8")
    assert found["sampling.backend"] == "pytorch" and "hf_x" not in str(found)


def test_the_tag_of_an_official_image_is_the_version():
    facts = parse("docker run --gpus all -e VLLM_ATTENTION_BACKEND=FLASHINFER vllm/vllm-openai:v0.20.1 --model /m")
    assert (facts.version, facts.host["image"]) == ("0.20.1", "vllm/vllm-openai:v0.20.1")
    assert "attention.backend" not in {s.key for s in facts.settings}, "0.20.1 does not read that variable"
    assert parse("docker run my/vllm:0.1 --model /m").version is None


def test_binding_to_a_numa_node_is_a_setting():
    facts = parse("numactl --cpunodebind=0 --membind=0 " + SGLANG)
    (numa,) = [s for s in facts.settings if s.key == "host.numa"]
    assert (numa.value, numa.evidence.text) == (True, "numactl --cpunodebind=0 --membind=0")


COMPOSE = """
services:
  vllm:
    image: vllm/vllm-openai:v0.20.1
    environment:
      - NCCL_P2P_DISABLE=1
    command: >
      --model /m --tensor-parallel-size 2
      --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    ports: ["8000:8000"]
"""
POD = """
apiVersion: v1
kind: Pod
spec:
  containers:
  - name: sidecar
    image: busybox
    command: ["sleep", "inf"]
  - name: server
    image: vllm/vllm-openai:v0.20.1
    env: [{name: NCCL_P2P_DISABLE, value: "1"}]
    command: ["/bin/bash", "-c"]
    args:
    - vllm serve /m --tensor-parallel-size=2 --speculative-config='{"method":"mtp","num_speculative_tokens":3}'
"""
ARGS = """
command: [vllm, serve]
args:
- /m
- "--tensor-parallel-size=2"
- --speculative-config
- '{"method":"mtp","num_speculative_tokens":3}'
env: {NCCL_P2P_DISABLE: 1}
"""
INSPECT = """[{"Image": "vllm/vllm-openai:v0.20.1", "Config": {"Image": "vllm/vllm-openai:v0.20.1",
  "Env": ["NCCL_P2P_DISABLE=1"], "Entrypoint": ["vllm", "serve"], "Cmd": ["/m", "-tp", "2", "--speculative-config",
  "{\\"method\\":\\"mtp\\",\\"num_speculative_tokens\\":3}"]}}]"""


@pytest.mark.parametrize("text", [COMPOSE, POD, ARGS, INSPECT], ids=["compose", "pod", "args", "inspect"])
def test_descriptions_of_containers_are_read(text):
    found = settings(text)
    assert (found["model.path"], found["parallel.tp"], found["spec.depth"]) == ("/m", 2, 3)
    assert found["env.NCCL_P2P_DISABLE"] == "1"


def test_a_list_of_words_is_a_command():
    assert settings('["vllm", "serve", "/m", "--max-num-seqs", "8"]')["sched.max_seqs"] == 8
    assert settings("- vllm\n- serve\n- /m\n- --max-num-seqs\n- 8\n")["sched.max_seqs"] == 8


def test_arguments_alone_tell_whose_they_are():
    assert parse("--model-path /m --speculative-num-draft-tokens 4 --speculative-algorithm EAGLE3").engine == "sglang"
    assert parse("--model /m --max-num-seqs 4 --gpu-memory-utilization 0.9").engine == "vllm"


def test_json_that_lost_its_quotes_is_still_read():
    found = settings(
        'vllm serve /m --speculative-config {"method": "mtp", "num_speculative_tokens": 3} --max-num-seqs 4'
    )
    assert (found["spec.method"], found["spec.depth"], found["sched.max_seqs"]) == ("mtp", 3, 4)
    assert settings("vllm serve /m -sc {method:mtp,num_speculative_tokens:3}")["spec.depth"] == 3


def test_a_line_cut_off_in_the_middle_gives_what_it_can():
    facts = parse(A6000[: A6000.index(',"num_spec')])
    found = {s.key: s.value for s in facts.settings}
    assert found["spec.method"] == "dflash" and found["parallel.tp"] == 2 and "spec.depth" not in found
    assert "never closed" in facts.gaps[0].why


def test_shell_variables_stay_as_they_are():
    found = settings('vllm serve "$MODEL" --max-model-len ${CTX:-32768} --tensor-parallel-size $TP')
    assert found["model.path"] == "$MODEL" and found["mem.max_context"] == "${CTX:-32768}"


def test_another_engine_is_told_by_its_name_and_keeps_its_flags():
    facts = parse("llama-server -m /models/q.gguf -md /models/d.gguf -c 65536 -fa -ngl 99 --draft-max 15")
    found = {s.key: s.value for s in facts.settings}
    assert facts.engine == "other" and found["other.ngl"] == "99" and found["other.fa"] is True
    assert (found["spec.draft_model"], found["spec.depth"]) == ("/models/d.gguf", 15)
    assert settings("tokenspeed serve /m --speculative-algorithm EAGLE3 --speculative-num-steps 3")["spec.depth"] == 3


def test_a_client_is_no_server():
    facts = parse("vllm bench serve --model m --num-prompts 100")
    assert facts.settings == () and "client" in facts.gaps[0].why


def test_two_servers_in_one_text_are_told():
    facts = parse("vllm serve /a --port 8000 &\nvllm serve /b --port 8001\n")
    assert {s.key: s.value for s in facts.settings}["model.path"] == "/a"
    assert "2 servers" in facts.gaps[0].why


@pytest.mark.parametrize("text", ["", " \n\t", "\0\0\0", "\ufeff"])
def test_nothing_is_unreadable(text):
    with pytest.raises(Unreadable, match="empty"):
        parse(text)


def test_what_is_no_text_is_unreadable():
    with pytest.raises(Unreadable, match="binary"):
        parse("\x01\x02\x03\ufffd" * 50)


def test_what_starts_no_server_says_what_it_is():
    with pytest.raises(Unreadable, match="all_reduce_perf"):
        parse("./build/all_reduce_perf -b 1M -e 128M -f 2 -g 8")


def test_windows_line_ends_are_line_ends():
    assert settings("vllm serve /m \\\r\n  --max-num-seqs 4\r\n")["sched.max_seqs"] == 4


PIECES = st.sampled_from(
    ["vllm", "serve", "bash", "-c", "docker", "run", "-e", "A=1",
     "vllm serve /m", "'", '"', "\\", "{", '{"a":', "}", "\n",
     "\0", "- ", ": ", "image: vllm/vllm-openai", "args:", "[", "]", "&x", "*x", "<<:", "--", "--tp", "-O", "$(",
     ";", "#"]
)  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=8), max_size=25).map(" ".join) | st.lists(PIECES, max_size=25).map("".join))
def test_any_text_is_read_or_unreadable(text):
    with suppress(Unreadable):
        parse(text)


@pytest.mark.parametrize(
    "piece",
    ["vllm serve /m ", "--unknown-flag ", "a'", '{"', "'\\", "bash -c ", "docker run ", "- - ", "[", "a: ",
     "&a *a ", "\n", "-e A=1 ",
     "numactl 1 ", "'vllm serve ", "#", "\0", "{'a':", "=", "A=1 "],
)  # fmt: skip
def test_a_long_text_is_read_in_one_pass(piece):
    began = time.perf_counter()
    with suppress(Unreadable):
        parse("vllm " + piece * (400_000 // len(piece)))
    assert time.perf_counter() - began < 8


@pytest.mark.parametrize(
    "text",
    [
        """docker run --gpus '"device=1,2"' --ipc=host vllm/vllm-openai:v0.15.1 /m --tensor-parallel-size 2""",
        "docker run --gpus device=1,2 vllm/vllm-openai:v0.15.1 --model /m",
        "services:\n  llm:\n    image: vllm/vllm-openai:v0.15.1\n    command: --model /m\n    deploy:\n"
        "      resources:\n        reservations:\n          devices:\n            - {device_ids: ['1', '2']}\n",
    ],
)
def test_the_cards_that_a_container_is_given_are_read(text):
    assert {s.key: s.value for s in parse(text).settings}["env.NVIDIA_VISIBLE_DEVICES"] == "1,2"
