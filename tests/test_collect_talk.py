"""What is heard of a host, however odd it talks."""

import base64
import json
import queue
import zlib

from dflash_doctor.collect import assemble, talk
from dflash_doctor.collect.options import Engine, Look
from dflash_doctor.model import Gap, Host


class Script:
    """A program that says these pieces, then ends."""

    def __init__(self, *pieces):
        self.pieces = queue.SimpleQueue()
        for piece in (*pieces, b""):
            self.pieces.put(piece if isinstance(piece, bytes) else json.dumps(piece).encode() + b"\n")
        self.closed = False

    def send(self, data):
        pass

    def recv(self):
        return self.pieces.get()

    def stderr(self):
        return ""

    def close(self):
        self.closed = True


def heard(*pieces):
    listening = talk.Heard(Script(*pieces))
    listening._thread.join(5)
    assert listening.over
    return listening


HELLO = b"dflash-doctor python\n"


def test_files_come_in_pieces_and_start_anew():
    h = heard(
        HELLO,
        {"file": "a.log", "data": "one ", "new": True},
        {"file": "a.log", "data": "two"},
        {"file": "b.json", "z": base64.b64encode(zlib.compress("é".encode())).decode(), "new": True},
        {"file": "host.json", "data": "early", "new": True},
        {"file": "host.json", "data": "late", "new": True},
    )
    assert h.files() == {"a.log": b"one two", "b.json": "é".encode(), "host.json": b"late"}


def test_a_line_may_arrive_in_any_number_of_pieces():
    whole = HELLO + json.dumps({"file": "a", "data": "x\ny"}).encode() + b"\n" + b'{"done": "look"}\n'
    h = heard(*(whole[i : i + 1] for i in range(len(whole))))
    assert h.files() == {"a": b"x\ny"} and h.times("look") == 1


def test_what_a_login_shell_prints_first_is_passed_over():
    h = heard(b"Welcome to gpu7!\nlast login: today\n", HELLO, {"gap": "gpu", "why": "none"})
    assert h.program == "python" and h.gaps == [Gap("gpu", "none")]
    assert b"Welcome" in h.noise


def test_a_host_that_starts_no_program_is_quoted():
    h = heard(b"This account is currently not available.")
    assert h.program is None and b"not available" in h.noise


def test_names_of_files_do_not_lead_anywhere():
    for name in ("../../etc/passwd", "/etc/passwd", ".ssh", "a/b", "", "a\\b", "x" * 200):
        assert heard(HELLO, {"file": name, "data": "x"}).files() == {}


def test_odd_lines_are_no_trouble():
    h = heard(
        HELLO, b"\xff\xfe garbage\n", b"[1, 2]\n", b'"text"\n', b"{\n", b'{"file": 7}\n', b'{"z": "?", "file": "a"}\n',
        b'{"file": "b", "z": 12}\n', b'{"engines": "x"}\n', b'{"sample": 3}\n', b'{"gap": null}\n', b"[" * 5000 + b"\n",
        {"file": "c", "data": "\ud800"}, {"done": "look"},
    )  # fmt: skip
    assert h.times("look") == 1
    assert Gap("a", "a part of it arrived damaged") in h.gaps


def test_a_bomb_does_not_go_off():
    bomb = base64.b64encode(zlib.compress(b"\0" * (talk.LINE + 10))).decode()
    h = heard(HELLO, {"file": "a", "z": bomb})
    assert h.files() == {} and h.gaps == [Gap("a", "a part of it arrived damaged")]


def test_a_host_that_never_stops_talking_is_cut_off():
    small, talk.TOTAL = talk.TOTAL, 1000
    try:
        script = Script(HELLO, *(b"x" * 400 + b"\n" for _ in range(10)))
        h = talk.Heard(script)
        h._thread.join(5)
    finally:
        talk.TOTAL = small
    assert script.closed and "it said more than" in h.gaps[0].why


def test_the_shell_programs_answers_are_understood():
    h = heard(
        b"dflash-doctor sh\n@hello 1700000000\n@engine vllm\t77\t8000\t1\n@engine sglang\t78\t30000\t0\n"
        b"@file server.log\n|one\n||two\n|@gap not a gap\n@file ../x\n|three\n@gap gpu\tnvidia-smi: not found\n"
        b'@sample {"t": 1, "load": true, "gpus": [{"index": 0}]}\n@sample broken\n@done look\n'
    )
    assert h.files()["server.log"].startswith(b"one\n|two\n@gap not a gap\n")
    assert set(h.files()) == {"server.log"}
    assert h.gaps == [Gap("gpu", "nvidia-smi: not found")]
    assert [(e["engine"], e["port"]) for e in h.engines if e["chosen"]] == [("vllm", 8000)]
    assert [(e["engine"], e["port"]) for e in h.engines if not e["chosen"]] == [("sglang", 30000)]
    assert h.samples == [{"t": 1, "load": True, "gpus": [{"index": 0}]}]
    assert h.times("look") == 1


def test_gpu_samples_are_complete_each():
    about = {"driver_version": "580", "source": "nvml", "gpus": [{"index": 0, "name": "A6000", "clocks.max.sm": 2100}]}
    samples = [{"t": 1.0, "load": False, "gpus": [{"index": 0, "clocks.sm": 210}]},
               {"t": 2.0, "load": True, "gpus": [{"index": 0, "clocks.sm": {"error": "GPU is lost"}}]}]  # fmt: skip
    made = assemble.gpu_json(about, samples)
    assert made["driver_version"] == "580"
    assert made["samples"][1]["gpus"] == [
        {"index": 0, "name": "A6000", "clocks.max.sm": 2100, "clocks.sm": {"error": "GPU is lost"}}
    ]


def test_the_capture_says_who_when_and_what_is_missing():
    h = heard(HELLO, {"file": "server.log", "data": "x"}, {"note": "a part is missing"}, {"gap": "gpu", "why": "none"})
    engines = (Engine("vllm", 8000, chosen=True), Engine("sglang", 30000))
    look = Look(engines, engines[0])
    made = assemble.capture(Host("gpu7", "ssh", "gpu7"), 1_800_000_000.0, look, {"collector": "python"}, h, h.gaps)
    text = made.files["capture.yaml"].decode()
    assert made.name == "gpu7" and made.gaps == (Gap("gpu", "none"),)
    for said in ("host: gpu7", "taken_at: '2027-01-15T08:00:00Z'", "engine: vllm", "engine_port: 8000", "port: 30000",
                 "note: a part is missing", "what: gpu"):  # fmt: skip
        assert said in text
