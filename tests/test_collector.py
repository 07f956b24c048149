"""What runs on the host: the program as a whole, who serves, where it listens."""

import ast
import re

import pytest
import yaml
from guests import SERVER, engines, lay, ports, visit

from dflash_doctor import paths
from dflash_doctor.collect import program

SOURCES = [paths.probes("collector.py"), *sorted(paths.probes("guest").glob("*.py"))]

# -- the program itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_the_program_is_written_in_the_python_of_the_oldest_host(path):
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))


NEWER = re.compile(r"capture_output|text=True|from __future__ import annotations|fromisoformat|remove(prefix|suffix)")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_the_program_uses_nothing_of_a_newer_library(path):
    assert not NEWER.search(path.read_text(encoding="utf-8"))


def test_the_program_needs_the_standard_library_only():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.split(".")[0]
                assert top == "guest" or top in __import__("sys").stdlib_module_names, f"{path.name} imports {name}"


def test_every_module_is_sent_before_the_ones_that_need_it():
    order = re.findall(r'"(\w+)"', re.search(r"MODULES = \((.*?)\)", SOURCES[0].read_text(), re.S)[1])
    assert set(order) == {p.stem for p in SOURCES[1:]}
    for path in SOURCES[1:]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "guest":
                for name in [node.module.split(".")[1]] if "." in node.module else [a.name for a in node.names]:
                    assert order.index(name) < order.index(path.stem), f"{path.stem} needs {name}"


def test_every_builtin_question_has_its_answer():
    asked = {q["builtin"] for q in program.questions()["questions"] if "builtin" in q}
    assert asked == {n[4:] for n in dir(visit.Visit) if n.startswith("ask_")} - {"one", "run", "url"}


def test_every_question_has_a_deadline_and_a_file_and_one_way_to_be_asked():
    for q in program.questions()["questions"]:
        assert q["seconds"] <= 20 and re.fullmatch(r"[\w.-]+", q["file"])
        assert "builtin" in q or len({"read", "run", "url"} & set(q)) == 1


def test_nothing_that_changes_a_server_is_ever_called():
    named = yaml.safe_dump(program.questions()["questions"])
    for path in ("flush_cache", "reset_prefix_cache", "profile", "sleep", "wake_up", "collective_rpc", "/health",
                 "slow_down", "pause", "resume", "abort", "freeze", "configure", "lora"):  # fmt: skip
        assert path not in named
    assert "POST" not in "".join(p.read_text() for p in SOURCES)


def test_patterns_of_the_questions_are_patterns():
    asked = program.questions()
    kept = [q["keep"] for q in asked["questions"] if "keep" in q]
    for pattern in [*asked["log"]["drop"], asked["log"]["progress"], *kept]:
        re.compile(pattern.encode())


# -- who serves -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("/opt/venv/bin/python3.12 /opt/venv/bin/vllm serve Qwen/Qwen3-8B", "vllm"),
        ("vllm serve Qwen/Qwen3-8B", "vllm"),
        ("python -m vllm.entrypoints.openai.api_server --model x", "vllm"),
        ("python3 -u -X faulthandler -m vllm.entrypoints.api_server", "vllm"),
        ("python -m vllm.entrypoints.cli.main serve x", "vllm"),
        ("python /src/vllm/entrypoints/openai/api_server.py", "vllm"),
        ("python3 -m sglang.launch_server --model-path x", "sglang"),
        ("/usr/bin/python3 /usr/local/bin/sglang serve --model-path x", "sglang"),
        ("python /sgl/python/sglang/launch_server.py", "sglang"),
        # what only speaks of them
        ("bash -c vllm serve x", None),
        ("docker run vllm/vllm-openai vllm serve x", None),
        ("ssh gpu7 vllm serve x", None),
        ("vllm bench serve --model x", None),
        ("python -m sglang.bench_serving", None),
        ("python -m vllm.entrypoints.cli.main bench throughput", None),
        ("python -m sglang_router.launch_router", None),
        ("grep vllm serve", None),
        ("python -c print() vllm serve", None),
        ("VLLM::EngineCore", None),
        ("", None),
    ],
)
def test_a_server_is_told_by_its_command_line(line, engine):
    assert engines.server(line.split()) == engine


def test_children_belong_to_the_server_and_are_no_servers(tmp_path):
    ground = lay(
        tmp_path,
        {
            "/proc/10/cmdline": SERVER,
            "/proc/10/stat": "10 (vllm) S 1 10 10 0 -1 0 0 0 0 0 500 100 0 0 20 0 9 0 4000 0 0",
            "/proc/11/cmdline": SERVER,  # forked, before it took its title
            "/proc/11/status": "Name:\tpython\nPPid:\t10\n",
            "/proc/12/cmdline": "VLLM::Worker_TP0\0\0\0",
            "/proc/12/status": "Name:\tVLLM::Worker_TP\nPPid:\t11\n",
            "/proc/13/cmdline": "bash\0",
            "/proc/stat": "cpu 1 2\nbtime 1700000000\n",
        },
    )
    found, everyone = engines.find(ground)
    assert [(e.pid, e.name, e.port, e.started) for e in found] == [(10, "vllm", 8123, 1700000040.0)]
    assert [(p.pid, p.role) for p in found[0].family] == [(11, "api_server"), (12, "worker")]
    assert len(everyone) == 4


def test_a_process_that_ended_meanwhile_does_not_stop_the_search(tmp_path):
    ground = lay(tmp_path, {"/proc/10/cmdline": SERVER, "/proc/11/status": "Name:\tgone\n"})
    assert [e.pid for e in engines.find(ground)[0]] == [10]


def test_of_several_engines_the_lowest_port_is_looked_at_and_all_are_named(tmp_path):
    ground = lay(
        tmp_path,
        {"/proc/10/cmdline": SERVER, "/proc/20/cmdline": "python\0-m\0sglang.launch_server\0--port=8001\0"},
    )
    found, _ = engines.find(ground)
    chosen, why = engines.choose(found, None)
    assert chosen.port == 8001 and "vllm on port 8123" in why and "--engine-port" in why
    assert engines.choose(found, 8123)[0].name == "vllm"
    assert engines.choose(found, 9)[1] == "no engine on port 9; found vllm on port 8123, sglang on port 8001"


def test_the_port_is_the_one_that_is_listened_on(tmp_path):
    # 1F40 = 8000 of the engine, 2328 = 9000 of somebody else
    table = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 501 1\n"
        "   1: 0100007F:2328 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 502 1\n"
        "   2: 0100007F:1F40 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 503 1\n"
    )
    ground = lay(
        tmp_path,
        {
            "/proc/10/cmdline": "python\0/opt/bin/vllm\0serve\0--config\0/etc/vllm.yaml\0",
            "/proc/10/net/tcp": table,
            "/proc/10/fd/7": "-> socket:[501]",
        },
    )
    (engine,) = engines.find(ground)[0]
    assert (engine.address, engine.port, engine.listens) == ("127.0.0.1", 8000, True)


def test_an_engine_that_does_not_listen_yet_is_known_as_such(tmp_path):
    ground = lay(tmp_path, {"/proc/10/cmdline": SERVER, "/proc/10/net/tcp": "  sl  local_address\n"})
    assert engines.find(ground)[0][0].listens is False


@pytest.mark.parametrize(
    ("cgroup", "container", "runtime", "unit"),
    [
        (f"0::/system.slice/docker-{'a' * 64}.scope", "a" * 64, "docker", None),
        (f"12:cpu:/docker/{'b' * 64}", "b" * 64, "docker", None),
        (f"0::/user.slice/user-1000.slice/user@1000.service/libpod-{'c' * 64}.scope", "c" * 64, "podman", None),
        (f"0::/kubepods.slice/pod1/cri-containerd-{'d' * 64}.scope", "d" * 64, "kubernetes", None),
        (f"3:cpu:/kubepods/burstable/pod7/{'e' * 64}", "e" * 64, "kubernetes", None),
        ("0::/system.slice/vllm.service", None, None, ["--unit", "vllm.service"]),
        ("0::/user.slice/user@1000.service/app.slice/sgl.service", None, None, ["--user-unit", "sgl.service"]),
        ("0::/user.slice/session-3.scope", None, None, None),
        ("", None, None, None),
    ],
)
def test_the_cgroup_names_container_or_service(cgroup, container, runtime, unit):
    assert engines.of_cgroup(cgroup) == (container, runtime, unit)


def test_a_container_has_an_address_of_its_own(tmp_path):
    trie = "  |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 172.17.0.2\n        /32 host LOCAL\n"
    ground = lay(tmp_path, {"/proc/10/net/fib_trie": trie})
    assert ports.own_addresses(ground, 10) == ["172.17.0.2"]


def test_addresses_of_the_kernel_are_read_in_its_byte_order():
    assert ports.address("0100007F") == "127.0.0.1"
    assert ports.address("00000000000000000000000001000000") == "::1"
