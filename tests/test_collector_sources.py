"""What runs on the host: where the log is, what the engine was built from, the host itself, how it is asked."""

import pytest
from guests import SERVER, ask, command, engines, gpu, hide, lay, logs, machine, model

# -- where its log is -------------------------------------------------------------------------------------------------

LIMITS = {"head": 786432, "tail": 524288, "drop": [], "progress": None}


def log_of(ground):
    (engine,), everyone = engines.find(ground)
    return logs.of_engine(logs.Log(ground, LIMITS, 5), engine, everyone)


def test_the_log_is_the_file_behind_stdout(tmp_path):
    ground = lay(
        tmp_path,
        {"/proc/10/cmdline": SERVER, "/proc/10/fd/1": "-> /var/log/vllm.log", "/var/log/vllm.log": "INFO up\n"},
    )
    assert log_of(ground) == [("server.log", b"INFO up\n", None)]


def test_the_log_may_be_what_tee_writes(tmp_path):
    ground = lay(
        tmp_path,
        {
            "/proc/10/cmdline": SERVER,
            "/proc/10/fd/1": "-> pipe:[77]",
            "/proc/11/cmdline": "tee\0server.log\0",
            "/proc/11/fd/0": "-> pipe:[77]",
            "/proc/11/fd/1": "-> /dev/pts/3",
            "/proc/11/fd/3": "-> /home/me/server.log",
            "/home/me/server.log": "INFO by tee\n",
        },
    )
    assert log_of(ground)[0][1] == b"INFO by tee\n"


@pytest.mark.parametrize(
    ("stdout", "words"),
    [("-> /dev/null", "thrown away"), ("-> /dev/pts/0", "terminal"), ("-> pipe:[9]", "pipe whose reader keeps no file"),
     ("-> socket:[9]", "no service or container"), ("-> /var/log/gone.log", "No such file")],
)  # fmt: skip
def test_a_log_that_is_nowhere_is_explained(tmp_path, stdout, words):
    ground = lay(tmp_path, {"/proc/10/cmdline": SERVER, "/proc/10/fd/1": stdout})
    with pytest.raises(ask.Failed, match=words):
        log_of(ground)


def test_the_log_of_a_container_is_its_runtimes(tmp_path):
    ground = lay(
        tmp_path,
        {
            "/proc/10/cmdline": SERVER,
            "/proc/10/fd/1": "-> pipe:[9]",
            "/proc/10/cgroup": f"0::/system.slice/docker-{'a' * 64}.scope\n",
        },
    )
    command(tmp_path, "docker", 'echo "out $*"; echo "err" >&2\n')
    assert log_of(ground)[0][1] == f"out logs {'a' * 64}\nerr\n".encode()


def test_a_container_that_stopped_gives_its_launch_line_and_its_log(tmp_path):
    ground = lay(tmp_path, {})
    command(
        tmp_path,
        "docker",
        """case $1 in
ps) echo '{"ID":"abc","Names":"web","Image":"nginx","Command":"nginx","Status":"Exited (0)","CreatedAt":"2026-12-02"}'
    echo '{"ID":"def","Names":"serve","Image":"vllm/vllm-openai","Status":"Exited (1)","CreatedAt":"2026-12-01"}';;
inspect) echo '[{"Path":"vllm","Args":["serve","m","--api-key","geheim"],'
         echo '  "Config":{"Env":["VLLM_X=1","HF_TOKEN=t0ken","PW=x"]}}]';;
logs) echo "ImportError: flash_attn";;
esac
""",
    )
    what, files = logs.of_dead(logs.Log(ground, LIMITS, 5), hide.Hider(), ["VLLM_*", "HF_*"])
    assert what == "container serve (Exited (1))"
    assert {n: t for n, t, _ in files} == {
        "cmdline": "vllm\0serve\0m\0--api-key\0***\0",
        "environ": "VLLM_X=1\nHF_TOKEN=***\n",
        "server.log": b"ImportError: flash_attn\n",
    }


def test_without_any_server_the_reason_is_said(tmp_path):
    with pytest.raises(ask.Failed, match="no running server"):
        logs.of_dead(logs.Log(lay(tmp_path, {}), LIMITS, 5), hide.Hider(), [])


# -- model and packages -----------------------------------------------------------------------------------------------


def engine_of(ground):
    return engines.find(ground)[0][0]


def test_model_and_drafter_are_read_from_the_folders_the_launch_line_names(tmp_path):
    line = SERVER.replace("Qwen/Qwen3-8B", "/models/t")
    line += '--speculative-config\0{"method":"dflash","model":"/models/d"}\0'
    ground = lay(
        tmp_path, {"/proc/10/cmdline": line, "/models/t/config.json": '{"a": 1}', "/models/d/config.json": '{"d": 1}'}
    )
    engine = engine_of(ground)
    assert model.config(ground, engine, model.target_path(engine), []) == b'{"a": 1}'
    assert model.config(ground, engine, model.draft_path(engine), []) == b'{"d": 1}'


def test_a_hub_id_is_looked_up_in_the_cache_of_whoever_runs_the_engine(tmp_path):
    hub = "/home/me/.cache/huggingface/hub/models--Qwen--Qwen3-8B"
    ground = lay(
        tmp_path,
        {
            "/proc/10/cmdline": SERVER,
            hub + "/refs/main": "abc123",
            hub + "/snapshots/abc123/config.json": "-> ../../blobs/f00",
            hub + "/blobs/f00": '{"hub": 1}',
        },
    )
    assert model.config(ground, engine_of(ground), "Qwen/Qwen3-8B", [("HOME", "/home/me")]) == b'{"hub": 1}'


def test_a_model_that_is_nowhere_is_a_gap_that_names_the_places(tmp_path):
    ground = lay(tmp_path, {"/proc/10/cmdline": SERVER})
    with pytest.raises(ask.Failed, match=r"no config\.json in Qwen/Qwen3-8B"):
        model.config(ground, engine_of(ground), "Qwen/Qwen3-8B", [])


def test_packages_are_those_of_the_engines_own_environment(tmp_path):
    site = "/opt/venv/lib/python3.12/site-packages"
    ground = lay(
        tmp_path,
        {
            "/proc/10/cmdline": SERVER,
            site + "/vllm-0.20.1+cu129.dist-info/METADATA": "",
            site + "/flash_attn_4-4.0.0b12.dist-info/METADATA": "",
            site + "/torch-2.11.0.dist-info/METADATA": "",
            site + "/six.py": "",
            "/usr/lib/python3/dist-packages/other-1.0.dist-info/METADATA": "",
        },
    )
    text = model.packages(ground, engine_of(ground), [])
    assert text == "flash-attn-4==4.0.0b12\ntorch==2.11.0\nvllm==0.20.1+cu129\n"


# -- the host ---------------------------------------------------------------------------------------------------------


def test_facts_of_the_host_are_read_and_missing_ones_left_out(tmp_path):
    ground = lay(
        tmp_path,
        {
            "/proc/10/cmdline": SERVER,
            "/proc/10/status": "Name:\tvllm\nThreads:\t12\nCpus_allowed_list:\t0-7\n",
            "/proc/10/cgroup": "0::/pod\n",
            "/sys/fs/cgroup/pod/cpu.max": "600000 100000\n",
            "/sys/fs/cgroup/pod/cpu.stat": "usage_usec 1\nnr_periods 611\nnr_throttled 608\nthrottled_usec 9\n",
            "/proc/cpuinfo": "processor: 0\nmodel name: EPYC 7763\nphysical id: 0\n\nprocessor: 1\nphysical id: 1\n",
            "/proc/loadavg": "1.80 1.70 1.60 2/900 4242\n",
            "/proc/sys/kernel/ostype": "Linux\n",
            "/proc/sys/kernel/osrelease": "6.8.0\n",
            "/sys/devices/system/node/node0/cpulist": "0-1\n",
            "/sys/class/dmi/id/sys_vendor": "QEMU\n",
        },
    )
    found, everyone = engines.find(ground)
    facts = machine.Machine(ground, found[0], everyone).facts({10: 1})
    assert facts["uname"] == "Linux 6.8.0"
    assert (facts["cpu_model"], facts["cpus"], facts["sockets"]) == ("EPYC 7763", 2, 2)
    assert facts["load"] == [1.8, 1.7, 1.6]
    assert facts["numa_nodes"] == {"0": "0-1"}
    assert facts["virt"] == "kvm"
    assert facts["cgroup"]["cpu_max"] == "600000 100000"
    # growth over the time we looked, not since the pod began
    assert facts["cgroup"]["nr_throttled"] == 0
    assert facts["processes"] == [{"pid": 10, "name": "vllm serve", "role": "api_server", "threads": 12}]
    assert facts["affinity"] == [{"pid": 10, "name": "vllm serve", "cpus": "0-7", "gpu": 1}]
    assert "governor" not in facts and "bios" not in facts


def test_an_empty_host_has_no_facts_and_no_traceback(tmp_path):
    ground = lay(tmp_path, {})
    facts = machine.Machine(ground, None, {}).facts({})
    assert "cpu_model" not in facts
    with pytest.raises(ask.Failed, match="nvidia-smi: not found on this host"):
        gpu.Gpus(ground, None, str, {"seconds": 1, "once": ["name"], "live": ["clocks.sm"]})


# -- asking -----------------------------------------------------------------------------------------------------------


def test_links_are_followed_inside_the_root_only(tmp_path):
    ground = lay(
        tmp_path,
        {
            "/a/link": "-> /etc/passwd",
            "/etc/passwd": "made up\n",
            "/up": "-> ../../../etc/passwd",
            "/round": "-> /round",
        },
    )
    assert ground.text("/a/link") == "made up"
    assert ground.text("/up") == "made up"
    with pytest.raises(ask.Failed, match="too many links"):
        ground.read("/round")


def test_a_missing_command_a_failing_one_and_a_late_one_are_told_apart(tmp_path):
    ground = lay(tmp_path, {})
    command(tmp_path, "broken", "echo 'no permission' >&2; exit 3\n")
    command(tmp_path, "slow", "sleep 30\n")
    command(tmp_path, "endless", "yes\n")
    with pytest.raises(ask.Failed, match="missing: not found on this host"):
        ground.run(["missing"])
    with pytest.raises(ask.Failed, match="broken -x: no permission"):
        ground.run(["broken", "-x"])
    with pytest.raises(ask.Failed, match=r"slow: no answer within 0\.2 s"):
        ground.run(["slow"], seconds=0.2)
    assert len(ground.run(["endless"], limit=1000)) == 1000


def test_commands_of_a_made_up_host_are_never_the_machines_own(tmp_path):
    assert lay(tmp_path, {}).find("sh") is None
    assert ask.Ground("/").find("sh") is not None
