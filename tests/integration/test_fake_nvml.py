"""GPU counters by the real pynvml from a made-up driver, through OpenSSH's sshd; and by a made-up nvidia-smi.

gpu.json must be what the state files of tests/fake_nvml say: value, not supported and failed are three things.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

import fake_nvml
from fake_nvml import MadeUp
from guests import ask, smi
from loopback import Sshd

from dflash_doctor import collect, compare, diagnose, parse
from dflash_doctor.collect import Options, assemble, program
from dflash_doctor.model import Capture
from dflash_doctor.parsers import gpu as gpu_parser
from dflash_doctor.parsers import nvidia_smi as smi_parser
from dflash_doctor.parsers import topology

QUESTION = next(q for q in program.questions()["questions"] if q["name"] == "gpu")
REMAPPED = ["remapped_rows." + r for r in ("correctable", "uncorrectable", "pending", "failure")]
KEYS = [*QUESTION["once"], *QUESTION["live"], *REMAPPED, "processes"]
BEYOND = ("pcie_replay", "energy_mj", "nvlink", "numa_node", "virtualization", "gsp_firmware", "bar1_total",
          "mig_devices")  # fmt: skip
REFUSING = ("mismatch", "no-driver")
ANSWERING = [n for n in fake_nvml.NAMES if n not in REFUSING]


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Where compiled libraries are kept; skipped with a plain message where there is no compiler."""
    if fake_nvml.compiler() is None:
        pytest.skip("no C compiler (Debian: apt-get install gcc libc6-dev)")
    return tmp_path_factory.mktemp("nvml")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No key and no agent of the person who runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


def look(name, folder, built, client_key, nvml=True, **options):
    """What a visit through an sshd of its own brings from a made-up host."""
    made = MadeUp(name, folder, built, nvml)
    pairs = " ".join(f"{k}={v}" for k, v in made.environ.items())
    server = Sshd(folder / "sshd", extra=f"SetEnv {pairs}", key=client_key)
    try:
        return collect.collect(server.host(), Options(commands=str(made.commands), **options))
    finally:
        server.stop()


@pytest.fixture(scope="session")
def visits(sshd_folder, tmp_path_factory, built):
    """One visit to every state: by NVML, and by nvidia-smi where no library can be loaded."""
    key = sshd_folder / "shared_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    folder = tmp_path_factory.mktemp("hosts")
    for name in fake_nvml.NAMES:  # compile first, each library once
        MadeUp(name, folder / name, built)
    jobs = [(name, nvml) for name in fake_nvml.NAMES for nvml in (True, False)]
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda j: look(j[0], folder / f"{j[0]}-{j[1]}", built, key, j[1]), jobs)
        return dict(zip(jobs, found, strict=True))


def cards(capture, sample=0):
    return json.loads(capture.files["gpu.json"])["samples"][sample]["gpus"]


def gaps(capture):
    return {g.what: g.why for g in capture.gaps}


def should_be(card, keys):
    """What gpu.json should hold of these keys for one card of a state."""
    if "error" in card:
        return {"index": card["index"], **{k: {"error": card["error"]} for k in keys}}
    return {"index": card["index"], **{k: card.get(k) for k in keys}}


def nameless(card):
    """Without the names of processes: on a made-up host NVML's process numbers are those of somebody else."""
    processes = card["processes"]
    if isinstance(processes, list):
        processes = [{k: v for k, v in p.items() if k != "name"} for p in processes]
    return {**card, "processes": processes}


@pytest.mark.parametrize("name", ANSWERING)
def test_gpu_json_is_the_state_by_nvml(visits, name):
    capture = visits[name, True]
    whole = json.loads(capture.files["gpu.json"])
    state = fake_nvml.state(name)
    assert (whole["source"], whole["driver_version"]) == ("nvml", state["driver_version"])
    assert whole["cuda_version"] == state["cuda_version"]
    for card, truth in zip(cards(capture), state["gpus"], strict=True):
        beyond = card.pop("nvml")
        assert nameless(card) == nameless(should_be(truth, KEYS))
        if "error" not in truth:
            assert beyond == {k: truth["nvml"].get(k) for k in BEYOND}
        else:
            assert set(beyond) == set(BEYOND) and all(v == {"error": truth["error"]} for v in beyond.values())
    assert "gpu" not in gaps(capture)


@pytest.mark.parametrize("name", ANSWERING)
def test_both_ways_agree_on_every_key_both_offer(visits, name):
    by_nvml, by_smi = visits[name, True], visits[name, False]
    assert json.loads(by_smi.files["gpu.json"])["source"] == "nvidia-smi"
    for one, other in zip(cards(by_nvml), cards(by_smi), strict=True):
        both = (set(one) & set(other)) - {"processes"}
        assert len(both) >= 40
        assert {k: word(one[k]) for k in both} == {k: word(other[k]) for k in both}
        assert bare(one["processes"]) == bare(other["processes"])


def word(value):
    """A read that failed is one, in whatever words."""
    return "failed" if isinstance(value, dict) else value


def bare(processes):
    """Process rows of what both ways tell."""
    return word(processes) if isinstance(processes, dict) else [(p["pid"], p["used_memory"]) for p in processes]


@pytest.mark.parametrize("name", ANSWERING)
def test_by_nvidia_smi_only_what_its_driver_does_not_know_is_left_out(visits, name):
    state = fake_nvml.state(name)
    driver = int(state["driver_version"].partition(".")[0])
    told = {k for card in cards(visits[name, False]) for k in card}
    missing = set(KEYS) - told
    older = ("clocks_event_reasons.active", "clocks_event_reasons.supported")  # under their older name
    assert missing == {k for k in KEYS if fake_nvml.since(k) > driver and k not in older}
    names = [p["name"] for c in cards(visits[name, False]) if isinstance(c["processes"], list) for p in c["processes"]]
    truth = [p["name"] for c in state["gpus"] if isinstance(c.get("processes"), list) for p in c["processes"]]
    assert names == truth


@pytest.mark.parametrize("name", ANSWERING)
def test_the_long_print_says_the_same(visits, name):
    facts = smi_parser.parse(visits[name, False].files["nvidia-smi.xml"].decode(), "nvidia-smi.xml")
    truth = {c["pci.bus_id"]: c for c in fake_nvml.state(name)["gpus"] if "error" not in c}
    assert len(facts.readings) == len(truth)
    for reading in facts.readings:
        card = truth[reading.values["pci.bus_id"]]
        for key in set(KEYS) & set(reading.values) - {"processes"}:
            said, true = reading.values[key], card.get(key)
            if isinstance(true, dict):
                assert said.why, key
            elif key in REMAPPED[2:]:
                assert said == {None: None, 0: "No", 1: "Yes"}[true], key
            else:
                assert said == true, key
        for key in ("pcie_replay", "virtualization", "bar1_total"):
            assert reading.values[f"nvml.{key}"] == word(card["nvml"].get(key)), key


@pytest.mark.parametrize("name", REFUSING)
@pytest.mark.parametrize("nvml", [True, False])
def test_a_driver_that_refuses_is_one_gap_and_the_rest_arrives(visits, name, nvml):
    capture = visits[name, nvml]
    assert "gpu.json" not in capture.files and "topology.txt" not in capture.files
    said = gaps(capture)["gpu"]
    assert fake_nvml.state(name)["smi"]["refuses"].strip().splitlines()[0] in said
    if nvml:
        assert "NVML: " + fake_nvml.state(name)["init"]["error"] in said
    assert sum("gpu" in g.what for g in capture.gaps) == 1
    assert json.loads(capture.files["host.json"])["cpus"] > 0


@pytest.mark.parametrize("name", ANSWERING)
def test_how_cards_reach_each_other_is_read_either_way(visits, name):
    texts = {visits[name, nvml].files["topology.txt"] for nvml in (True, False)}
    facts = topology.parse(texts.pop().decode(), "topology.txt")
    assert not texts  # the same twice
    present = [c["index"] for c in fake_nvml.state(name)["gpus"] if "error" not in c]
    assert set(facts.links) == {(a, b) for a in present for b in present if a < b}


def test_a_card_without_a_handle_keeps_its_number(visits):
    for nvml in (True, False):
        lost = cards(visits["gpu-lost", nvml])
        assert [c["index"] for c in lost] == [0, 1, 2, 3]
        assert "GPU is lost" in lost[2]["clocks.sm"]["error"] and lost[3]["clocks.sm"] == 1785
        denied = cards(visits["permission-denied", nvml])
        assert denied[1]["uuid"] == {"error": "Insufficient Permissions"} and denied[0]["clocks.sm"] == 1410


def test_numbers_of_cards_are_the_drivers_and_ids_stay_with_them(visits):
    for nvml in (True, False):
        found = [(c["index"], c["pci.bus_id"][9:11], c["uuid"][-2:]) for c in cards(visits["order", nvml])]
        assert found == [(0, "81", "a3"), (1, "04", "a0"), (2, "05", "a1"), (3, "80", "a2")]
        assert [len(c["processes"]) for c in cards(visits["order", nvml])] == [0, 0, 0, 1]


def test_slices_are_facts_of_the_host(visits):
    for nvml in (True, False):
        facts = gpu_parser.parse(visits["mig", nvml].files["gpu.json"].decode(), "gpu.json")
        assert len(facts.host["mig_devices"]) == 2
        assert "MIG 1g.10gb, device 1 (UUID: MIG-" in facts.host["mig_devices"][1]
    assert "mig_devices" not in json.loads(visits["h100x8", True].files["gpu.json"])


def test_what_failed_and_what_is_not_there_reach_the_reader_apart(visits):
    facts = gpu_parser.parse(visits["b200-needs-reset", True].files["gpu.json"].decode(), "gpu.json")
    (card,) = facts.readings[:1]
    assert card.values["clocks.applications.gr"] is None  # deprecated: nobody has it any more
    assert card.values["fan.speed"].why == "Unknown Error"
    assert card.values["ecc.errors.uncorrected.volatile.total"].why == "GPU requires reset"
    assert card.values["ecc.errors.corrected.volatile.total"] == 0
    assert card.values["gpu_recovery_action"] == "Drain and Reset"
    assert card.values["nvml.nvlink"][7]["recovered"] == 12


def test_a_shell_alone_asks_the_same_of_nvidia_smi(sshd_folder, tmp_path, built):
    for name in ("a6000x2-power-cap", "sixteen"):
        key = tmp_path / f"{name}-key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        made = MadeUp(name, tmp_path / name, built)
        pairs = " ".join(f"{k}={v}" for k, v in made.environ.items())
        path = f"{made.commands}:/usr/bin:/bin"
        server = Sshd(tmp_path / f"{name}-sshd", extra=f"SetEnv {pairs} PATH={path}", key=key)
        try:
            capture = collect.collect(server.host(), Options(shell_only=True))
        finally:
            server.stop()
        for card, truth in zip(cards(capture), made.state["gpus"], strict=True):
            assert len(card) > 15
            assert card == {k: truth.get(k) for k in card}


def test_a_driver_that_hangs_is_one_gap_and_the_rest_arrives(sshd_folder, tmp_path, built):
    state = {**fake_nvml.state("a6000x2-power-cap"), "hangs": "nvmlDeviceGetPowerUsage"}
    capture = look(state, tmp_path / "host", built, None, deadline_s=4.0)
    assert [g.why for g in capture.gaps if "gpu" in g.what or "nvidia" in g.what or "topo" in g.what] == [
        "no answer within 4 s"
    ]
    assert json.loads(capture.files["host.json"])["cpus"] > 0


# -- in the middle of a run -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nvml", [True, False])
def test_a_card_that_is_lost_in_the_middle_of_a_run(sshd_folder, tmp_path, built, nvml):
    made = MadeUp("gpu-before-loss", tmp_path / "host", built, nvml)
    pairs = " ".join(f"{k}={v}" for k, v in made.environ.items())
    server = Sshd(tmp_path / "sshd", extra=f"SetEnv {pairs}")
    try:
        options = Options(commands=str(made.commands), hertz=5.0)
        with collect.open_session(server.host(), options) as visit:
            visit.look()
            visit.load_begin()
            made.becomes("gpu-lost")
            visit.load_end()
            capture = visit.finish()
    finally:
        server.stop()
    assert all(c["clocks.sm"] == 1785 for c in cards(capture))
    after = cards(capture, -1)
    assert "GPU is lost" in after[2]["power.draw"]["error"] and after[2]["uuid"].startswith("GPU-")
    assert [after[i]["power.draw"] for i in (0, 1, 3)] == [262.01] * 3
    facts = gpu_parser.parse(capture.files["gpu.json"].decode(), "gpu.json")
    assert any("GPU 2" in g.what and "GPU is lost" in g.why for g in facts.gaps)


def test_under_load_every_sample_is_said_to_be_under_load(sshd_folder, tmp_path, built):
    made = MadeUp("h100x8", tmp_path / "host", built)
    pairs = " ".join(f"{k}={v}" for k, v in made.environ.items())
    server = Sshd(tmp_path / "sshd", extra=f"SetEnv {pairs}")
    try:
        with collect.open_session(server.host(), Options(commands=str(made.commands), hertz=5.0)) as visit:
            visit.look()
            visit.load_begin()
            visit.load_end()
            capture = visit.finish()
    finally:
        server.stop()
    samples = json.loads(capture.files["gpu.json"])["samples"]
    loads = [s["load"] for s in samples]
    assert loads[0] is False and loads[-1] is False and all(loads[1:-1]) and len(loads) >= 3
    assert all(len(s["gpus"]) == 8 for s in samples)


# -- what is said of it -----------------------------------------------------------------------------------------------

SAID = {
    "a6000x2-power-cap": {"gpu.power_cap", "gpu.shared_by_other_process"},
    "thermal-throttle": {"gpu.clock_throttle", "gpu.xid_ecc"},
    "mig": {"gpu.mig_or_vgpu", "gpu.shared_by_other_process"}, "vgpu": {"gpu.mig_or_vgpu"},
    "gpu-lost": {"gpu.xid_ecc"}, "b200-needs-reset": {"gpu.xid_ecc"}, "sixteen": {"gpu.xid_ecc"},
}  # fmt: skip
UNDER_LOAD_ONLY = {"gpu.power_cap", "gpu.clock_throttle"}


@pytest.mark.parametrize("name", ANSWERING)
def test_clocks_and_power_are_judged_under_load_only(tmp_path, built, monkeypatch, name):
    made = MadeUp(name, tmp_path, built, nvml=False)
    for key, value in made.environ.items():
        monkeypatch.setenv(key, value)
    reader = smi.Smi(ask.Ground("/", str(made.commands)), 10, QUESTION["once"], QUESTION["live"])
    about, live = {"mig_devices": reader.slices(), "gpus": reader.fixed}, reader.live()
    for load in (False, True):
        text = json.dumps(assemble.gpu_json(about, [{"t": 1.0, "load": load, "gpus": live}]))
        seen = parse.parse(Capture(name, {"gpu.json": text.encode()}))
        found = {f.cause for f in diagnose.diagnose(compare.compare(seen, None), name).findings}
        assert found == SAID.get(name, set()) - (set() if load else UNDER_LOAD_ONLY)


# -- an odd nvidia-smi ------------------------------------------------------------------------------------------------


class Odd:
    """A made-up nvidia-smi, asked in this process."""

    def __init__(self, folder, built, **peculiar):
        self.state = fake_nvml.state("a6000x2-power-cap")
        self.state["smi"] = peculiar
        self.made = MadeUp(self.state, folder, built, nvml=False)

    def becomes(self, **peculiar):
        self.made.becomes({**self.state, "smi": peculiar})

    def reader(self):
        return smi.Smi(ask.Ground("/", str(self.made.commands)), 10, QUESTION["once"], QUESTION["live"])


@pytest.fixture
def odd(tmp_path, built, monkeypatch):
    def make(**peculiar):
        host = Odd(tmp_path, built, **peculiar)
        for name, value in host.made.environ.items():
            monkeypatch.setenv(name, value)
        return host

    return make


def test_numbers_with_units_and_decimal_commas_are_the_same_numbers(odd):
    plain = odd().reader().live()
    comma = odd(units=True, replace={"199.41 W": "199,41 W", "200.00 W": "200,00 W", "201.07 W": "201,07 W"})
    assert comma.reader().live() == plain
    assert plain[0]["power.draw"] == 199.41


def test_an_answer_that_breaks_off_costs_what_is_missing_and_no_more(odd):
    host = odd()
    reader = host.reader()
    whole = reader.live()
    length = len(",".join(map(str, whole[0].values())))
    seen = 0
    for cut in range(5, 2 * length, 23):
        host.becomes(cut=cut)
        try:
            live = reader.live()
        except ask.Failed:  # not even one card
            continue
        assert [c["index"] for c in live] == [0, 1]
        for card, truth in zip(live, whole, strict=True):
            for key, value in card.items():
                assert key == "processes" or value == truth[key] or "error" in value, (cut, key)
        seen += 1
    assert seen > 5


def test_names_that_a_driver_does_not_know_cost_one_question_together(odd):
    gone = ["gpu_recovery_action", "addressing_mode", "fabric.state", "fabric.status", "power.draw.instant"]
    reader = odd(without=gone).reader()
    card = {**reader.fixed[0], **reader.live()[0]}
    assert not set(gone) & set(card) and card["clocks.sm"] == 1410 and card["clocks.max.sm"] == 2100


@pytest.mark.parametrize("failed", ["ERR!", "[Unknown Error]", "[GPU requires reset]", "[Insufficient Permissions]"])
def test_failed_reads_are_known_in_every_spelling(odd, failed):
    host = odd(failed={"Timeout": failed}, null={"fan.speed": "[Not Supported]"})
    changed = {"clocks.sm": {"error": "Timeout"}, "fan.speed": None}
    host.made.becomes({**host.state, "gpus": [{**g, **changed} for g in host.state["gpus"]]})
    card = host.reader().live()[0]
    assert card["clocks.sm"] == {"error": failed.strip("[]")}
    assert card["fan.speed"] is None


def test_a_row_of_another_length_is_an_error_in_every_value_of_that_card(odd):
    host = odd()
    reader = host.reader()
    host.becomes(replace={"200.33": "200,33, 1"})
    first, second = reader.live()
    assert first["clocks.sm"] == 1410
    assert second["clocks.sm"]["error"].startswith("nvidia-smi printed ")
