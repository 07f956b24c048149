"""A capture becomes a snapshot: whatever form the files have, the strongest saying of each setting wins."""

from __future__ import annotations

import gzip

import pytest

from dflash_doctor.model import Capture, Unreadable
from dflash_doctor.parse import parse

BANNER = (
    "(APIServer pid=1) INFO 11-23 09:14:07 [startup.py:96] vLLM server version 0.20.1, serving model /models/m\n"
    "(EngineCore pid=2) INFO 11-23 09:14:08 [cuda.py:1] Using TRITON_ATTN attention backend out of potential "
    "backends: ['TRITON_ATTN'].\n"
)
STATS = (
    "(APIServer pid=1) INFO 11-23 09:15:{s:02d} [loggers.py:1] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg "
    "generation throughput: {v} tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.6%, "
    "Prefix cache hit rate: 0.0%\n"
)
LOG = BANNER + "".join(STATS.format(s=s, v=50.0 + s / 100) for s in range(0, 60, 10))


def capture(**files):
    return Capture("c", {k.replace("__", "."): v if isinstance(v, bytes) else v.encode() for k, v in files.items()})


@pytest.mark.parametrize(
    "raw",
    [
        LOG.encode(),
        gzip.compress(LOG.encode()),
        LOG.encode("utf-16"),
        LOG.encode("utf-16-le"),
        b"\xef\xbb\xbf" + LOG.encode(),
        LOG.replace("\n", "\r\n").encode(),
    ],
    ids=["utf-8", "gzip", "utf-16", "utf-16 without a mark", "utf-8 with a mark", "windows line ends"],
)
def test_a_log_is_read_in_every_form_people_have_it(raw):
    s = parse(capture(server__log=raw))
    assert (s.engine, s.version, s.value("attention.backend")) == ("vllm", "0.20.1", "triton")


def test_what_the_engine_says_beats_what_was_asked_for_and_both_are_kept():
    s = parse(capture(server__log=LOG, cmdline="vllm serve /models/m --attention-backend FLASHINFER"))
    assert s.settings["attention.backend"].value == "triton"
    assert s.asked["attention.backend"].value == "flashinfer"


def test_an_unset_flag_has_the_default_of_its_version():
    s = parse(capture(server__log=LOG, cmdline="vllm serve /models/m"))
    assert s.settings["parallel.tp"].said == "default"
    assert s.value("parallel.tp") == 1


def test_of_an_unknown_release_only_what_every_release_does_is_known():
    log = BANNER.splitlines()[1] + "\n"
    s = parse(capture(server__log=log, cmdline="vllm serve /models/m --data-parallel-size 4"))
    assert s.version is None
    assert (s.value("parallel.tp"), s.value("parallel.dp")) == (1, 4)
    assert "sched.max_seqs" not in s.settings, "it changed between releases"


def test_without_a_launch_line_nothing_is_known_to_be_unset():
    assert "parallel.tp" not in parse(capture(server__log=BANNER)).settings


def test_a_variable_speaks_only_where_the_version_reads_it():
    old = parse(
        capture(
            server__log=BANNER.replace("0.20.1", "0.11.0").splitlines()[0], environ="VLLM_ATTENTION_BACKEND=FLASHINFER"
        )
    )
    new = parse(capture(server__log=BANNER.splitlines()[0], environ="VLLM_ATTENTION_BACKEND=FLASHINFER"))
    assert old.value("attention.backend") == "flashinfer"
    assert new.value("attention.backend") is None
    assert new.value("env.VLLM_ATTENTION_BACKEND") == "FLASHINFER"


def test_a_file_that_cannot_be_understood_is_a_gap_and_the_others_go_on():
    s = parse(capture(server__log=LOG, gpu__json="{ this is no JSON"))
    assert s.engine == "vllm"
    assert [g.what for g in s.gaps] == ["gpu.json"]


def test_a_capture_of_nothing_is_unreadable_and_says_why():
    with pytest.raises(Unreadable, match=r"no known file among notes\.md"):
        parse(capture(notes__md="hello"))
    with pytest.raises(Unreadable, match=r"server\.log"):
        parse(capture(server__log=b""))


def test_a_half_written_gzip_file_is_said_to_be_one():
    with pytest.raises(Unreadable, match="half-written or damaged gzip"):
        parse(capture(server__log__gz=gzip.compress(LOG.encode())[:-9]))


def test_earlier_starts_are_snapshots_of_their_own():
    first = LOG.replace("TRITON_ATTN", "FLASH_ATTN")
    s = parse(capture(server__log=first + LOG))
    assert [e.value("attention.backend") for e in s.earlier] == ["flash_attn"]
    assert s.value("attention.backend") == "triton"


READY = "(APIServer pid=1) INFO:     Application startup complete.\n"


def test_numbered_logs_without_a_year_are_starts_in_their_order():
    first = LOG.replace("TRITON_ATTN", "FLASH_ATTN")
    s = parse(capture(server__2__log=LOG + READY, server__1__log=first + READY))
    assert [e.value("attention.backend") for e in s.earlier] == ["flash_attn"]
    assert s.value("attention.backend") == "triton"


def test_numbered_logs_of_which_one_opens_no_port_are_hosts_of_one_start():
    assert parse(capture(server__1__log=LOG + READY, server__2__log=LOG)).earlier == ()
