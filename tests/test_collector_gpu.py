"""GPU counters: a value, not supported and failed are three things, and both ways of asking agree."""

import json
from types import SimpleNamespace

import pynvml
import pytest
from guests import ask, gpu, nvml, smi

from dflash_doctor.collect import program

QUESTION = next(q for q in program.questions()["questions"] if q["name"] == "gpu")


def reader(ground):
    return smi.Smi(ground, 5, QUESTION["once"], QUESTION["live"])


ROW = {
    "name": "NVIDIA RTX A6000", "uuid": "GPU-1", "clocks.sm": "1785", "power.draw": "262.01", "power.limit": "300.00",
    "clocks_event_reasons.active": "0x0000000000000004", "temperature.memory": "[N/A]", "fan.speed": "[Unknown Error]",
    "utilization.gpu": "ERR!", "pstate": "P2", "memory.used": "43310", "compute_cap": "8.6",
    "driver_version": "580.95.05",
}  # fmt: skip


class Ground:
    """A host with a scripted nvidia-smi."""

    real = False

    def __init__(self, rows=(ROW,), unknown=(), old=False):
        self.rows, self.unknown, self.old, self.asked = rows, unknown, old, []

    def run(self, argv, seconds, accept=(0,), both=False):
        query = argv[1].partition("=")[2]
        self.asked.append(query)
        if argv[1].startswith("--query-compute-apps"):
            return b"GPU-1, 2251, VLLM::Worker_TP0, 43292\nGPU-1, 99, /usr/bin/other --secret x, [N/A]\n"
        names = query.split(",")
        for name in names:
            if name in self.unknown or (self.old and name.startswith("clocks_event_reasons")):
                return f'Field "{name}" is not a valid field to query.\n'.encode()
        spelled = [n.replace("clocks_throttle_reasons", "clocks_event_reasons") for n in names]
        rows = [[str(i) if n == "index" else r.get(n, "[N/A]") for n in spelled] for i, r in enumerate(self.rows)]
        return "\n".join(", ".join(cells) for cells in rows).encode() + b"\n"


def test_a_value_not_supported_and_failed_are_three_things():
    (card,) = reader(Ground()).live()
    assert card["clocks.sm"] == 1785 and card["power.draw"] == 262.01
    assert card["temperature.memory"] is None
    assert card["fan.speed"] == {"error": "Unknown Error"}
    assert card["utilization.gpu"] == {"error": "ERR!"}
    assert card["clocks_event_reasons.active"] == "0x0000000000000004"


def test_a_name_that_a_driver_does_not_know_is_asked_once_and_left_out():
    ground = Ground(unknown=("gpu_recovery_action", "addressing_mode"))
    smi_reader = reader(ground)
    smi_reader.live()
    before = len(ground.asked)
    (card,) = smi_reader.live()
    assert "gpu_recovery_action" not in card and card["clocks.sm"] == 1785
    assert len(ground.asked) == before + 2  # one query of the cards, one of the processes


def test_older_drivers_call_the_reasons_throttle_reasons():
    (card,) = reader(Ground(old=True)).live()
    assert card["clocks_event_reasons.active"] == "0x0000000000000004"


def test_neighbours_on_the_card_are_named_without_their_arguments():
    (card,) = reader(Ground()).live()
    assert card["processes"] == [
        {"pid": 2251, "name": "VLLM::Worker_TP0", "used_memory": 43292},
        {"pid": 99, "name": "/usr/bin/other", "used_memory": None},
    ]


@pytest.mark.parametrize(
    "said", [b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", b"No devices were found",
             b"", b"0, only, three\n", "Pilote non chargé".encode("latin-1")],
)  # fmt: skip
def test_a_driver_that_does_not_answer_is_quoted(said):
    class Broken(Ground):
        def run(self, argv, seconds, accept=(0,), both=False):
            return said

    with pytest.raises(ask.Failed, match="nvidia-smi: "):
        reader(Broken())


class Library:
    """A pynvml whose functions answer from a table; the constants and errors are the real module's."""

    def __init__(self, **answers):
        self.answers = answers

    def __getattr__(self, name):
        if not name.startswith("nvml") or name.startswith("nvmlMemory"):
            return getattr(pynvml, name)
        getattr(pynvml, name)  # a name that the real module does not have is a mistake of ours
        answer = self.answers.get(name, pynvml.NVMLError_NotSupported())

        def call(*args):
            if isinstance(answer, Exception):
                raise answer
            return answer(*args) if callable(answer) else answer

        return call


def library(**more):
    answers = {
        "nvmlDeviceGetCount": 1,
        "nvmlDeviceGetHandleByIndex": "handle",
        "nvmlSystemGetDriverVersion": "580.95.05",
        "nvmlDeviceGetName": b"NVIDIA RTX A6000",
        "nvmlDeviceGetUUID": "GPU-1",
        "nvmlDeviceGetClockInfo": lambda h, kind: {1: 1785, 2: 7601, 0: 1785}[kind],
        "nvmlDeviceGetMaxClockInfo": lambda h, kind: {1: 2100, 2: 8001}[kind],
        "nvmlDeviceGetPowerUsage": 262010,
        "nvmlDeviceGetPowerManagementLimitConstraints": [100000, 300000],
        "nvmlDeviceGetCurrentClocksEventReasons": 4,
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=49140 << 20, used=43310 << 20, free=5 << 20, reserved=1 << 20),
        "nvmlDeviceGetFanSpeed": pynvml.NVMLError_Unknown(),
        "nvmlDeviceGetPerformanceState": 2,
        "nvmlDeviceGetComputeRunningProcesses_v3": [SimpleNamespace(pid=2251, usedGpuMemory=43292 << 20)],
        "nvmlDeviceGetFieldValues": lambda h, ids: [field(i) for i in ids],
        **more,
    }
    return Library(**answers)


def field(number):
    values = {74: 5_000_000, 82: 91, 186: 261_500}
    value = SimpleNamespace(ullVal=values.get(number, 0), uiVal=values.get(number, 0))
    return SimpleNamespace(fieldId=number, nvmlReturn=0 if number in values else 3, valueType=3, value=value)


def test_nvml_speaks_in_the_names_and_units_of_nvidia_smi():
    reader = nvml.Nvml(library(), lambda pid: f"process {pid}")
    (fixed,), (card,) = reader.fixed, reader.live()
    assert (fixed["name"], fixed["clocks.max.mem"], fixed["power.max_limit"]) == ("NVIDIA RTX A6000", 8001, 300.0)
    assert (card["clocks.sm"], card["clocks.mem"], card["power.draw"], card["pstate"]) == (1785, 7601, 262.01, "P2")
    assert card["clocks_event_reasons.active"] == "0x0000000000000004"
    assert card["memory.used"] == 43310
    assert card["clocks_event_reasons_counters.sw_power_cap"] == 5000  # microseconds
    assert card["temperature.memory"] == 91 and card["power.draw.instant"] == 261.5
    assert card["processes"] == [{"pid": 2251, "name": "process 2251", "used_memory": 43292}]


def test_nvml_keeps_not_supported_and_failed_apart():
    (card,) = nvml.Nvml(library(), str).live()
    assert card["temperature.gpu"] is None
    assert card["fan.speed"] == {"error": "Unknown Error"}


def test_both_ways_ask_for_the_same_values():
    reader = nvml.Nvml(library(), str)
    assert set(QUESTION["once"]) - set(reader.fixed[0]) == set()
    assert set(QUESTION["live"]) - set(reader.live()[0]) == set()


def test_a_card_that_fell_off_the_bus_is_an_error_in_every_value():
    reader = nvml.Nvml(library(nvmlDeviceGetHandleByIndex=pynvml.NVMLError_GpuIsLost()), str)
    (card,) = reader.live()
    assert card["clocks.sm"] == {"error": "GPU is lost"} and card["index"] == 0


def test_nvml_without_a_gpu_says_so():
    with pytest.raises(ask.Failed, match="it lists no GPU"):
        nvml.Nvml(library(nvmlDeviceGetCount=0), str)
    with pytest.raises(ask.Failed, match="version mismatch"):
        nvml.Nvml(library(nvmlDeviceGetCount=pynvml.NVMLError_LibRmVersionMismatch()), str)


def test_a_pynvml_that_does_not_load_is_a_reason_not_a_traceback(monkeypatch):
    monkeypatch.delitem(__import__("sys").modules, "pynvml")
    with pytest.raises(ask.Failed, match="did not come along"):
        nvml.load(None)
    with pytest.raises(ask.Failed, match="NVML: "):
        nvml.load("not base64 of zlib")


def test_the_sampler_stops_when_it_is_told():
    said = []

    class Wire:
        def say(self, answer):
            said.append(json.loads(json.dumps(answer)))

    cards = gpu.Gpus(Ground(), None, str, QUESTION)
    sampler = gpu.Sampler(cards, Wire(), hertz=10)
    sampler.begin()
    sampler.begin()  # a second one changes nothing
    sampler.end()
    sampler.end()
    assert all(s["sample"]["load"] is True for s in said)
