"""Whatever bytes lie in whatever file of a capture, there is a report or a refusal in words; never a traceback."""

from __future__ import annotations

import contextlib
import gzip
import io
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflash_doctor import compare, diagnose, parse, parsers
from dflash_doctor.model import Capture, Unreadable
from dflash_doctor.parsers import logs
from dflash_doctor.report import as_json, terminal

HERE = Path(__file__).parent
NAMES = sorted({name.replace("*", "0") for parser in parsers.ALL for name in parser.READS})
MOST = 12_000  # bytes of a real text: a mutation is somewhere in every part of it soon


def real() -> dict[str, bytes]:
    """A real text for the files that the captures and samples here have."""
    found: dict[str, bytes] = {}
    for path in (*sorted(HERE.glob("captures/*/*")), *sorted(HERE.glob("samples/nvidia-smi/*"))):
        data = path.read_bytes()
        name = path.name.removesuffix(".gz")
        name = name if name in NAMES else f"nvidia-smi{path.suffix}"
        found[name] = (gzip.decompress(data) if path.suffix == ".gz" else data)[:MOST]
    return {name: data for name, data in found.items() if name in NAMES}


REAL = real()


def report_or_refusal(files: dict[str, bytes]) -> str:
    try:
        now = parse.parse(Capture("c", files))
        found = diagnose.diagnose(compare.compare(now, None, "none"), "c")
    except Unreadable as e:
        return str(e)
    return as_json.render(found) + terminal.render(found, width=80)


@given(st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=300), min_size=1, max_size=4), st.booleans())
@settings(max_examples=120, deadline=None)
def test_any_bytes_in_any_file_give_a_report_or_a_refusal(files, beside_a_log):
    beside = {"server.log": REAL["server.log"]} if beside_a_log else {}
    assert report_or_refusal({**beside, **files}).strip()


NUMBERS = (b"nan", b"-1", b"1e999", b"0", b"99999999999999999999999", b"1.2.3", b"\xe0\xa5\xa9", b"")
ODD = (b"\0", b"\r", b"\n", b"\xff\xfe", b"\x1b[", b'"', b"{", b"[" * 3000, b"\xf0\x9f\xa6\x99", b"None", b"\t" * 50)


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, bytes]:
    """Real files, each with a few places changed as transports, editors and other releases change them."""
    files = {}
    for name in draw(st.lists(st.sampled_from(sorted(REAL)), min_size=1, max_size=3, unique=True)):
        data = REAL[name]
        for _ in range(draw(st.integers(1, 4))):
            a = draw(st.integers(0, len(data)))
            b = draw(st.integers(a, min(len(data), a + 200)))
            digits = next((i for i in range(a, len(data)) if data[i : i + 1].isdigit()), a)
            data = draw(
                st.sampled_from(
                    [
                        data[:a] + data[b:],
                        data[:a] + data[a:b] * 3 + data[b:],
                        data[:a] + draw(st.sampled_from(ODD)) + data[a:],
                        data[:digits] + draw(st.sampled_from(NUMBERS)) + data[digits + 1 :],
                        data[:a],
                    ]
                )
            )
        files[name] = draw(
            st.sampled_from([data, data.decode("utf-8", "replace").encode("utf-16"), gzip.compress(data)])
        )
    return files


@given(mutated())
@settings(max_examples=120, deadline=None)
def test_real_files_with_places_changed_give_a_report_or_a_refusal(files):
    assert report_or_refusal(files).strip()


@given(mutated())
@settings(max_examples=60, deadline=None)
def test_any_log_is_survived_by_the_way_large_ones_are_read(files):
    with contextlib.suppress(Unreadable):
        assert logs.parse_large(io.BytesIO(b"\n".join(files.values())), "server.log")


N = 120_000
ADVERSARIAL = {
    "one letter": b"x" * N,
    "brackets": b"[" * N,
    "json in json": b'{"a":' * (N // 5),
    "quotes": b'"' * N,
    "spaces": b"a" + b" " * N + b"b",
    "lines": b"\n" * N,
    "numbers": b"1," * (N // 2),
    "words": b"a b=c " * (N // 6),
    "dashes": b"- " * (N // 2),
    "options": b"vllm serve m " + b"--a=" * (N // 4),
    "dots": b"a." * (N // 2),
}


@pytest.mark.parametrize("name", NAMES)
def test_hostile_texts_take_linear_time_in_every_file(name):
    for what, data in ADVERSARIAL.items():
        begun = time.perf_counter()
        report_or_refusal({name: data})
        assert time.perf_counter() - begun < 3, f"{what} in {name}"
