"""Captures on disk."""

import gzip
import io
import os
import sys
import tarfile

import pytest

from dflash_doctor.collect import added, load, save, store
from dflash_doctor.model import Capture, Gap, Refused

FILES = {"server.log": b"INFO up\n", "capture.yaml": b"host: gpu7\nnote: hello\n"}
CAPTURE = Capture("gpu7", FILES, (Gap("gpu", "none"),))


def archive(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            if isinstance(data, bytes):
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
            else:
                member.type, member.linkname = tarfile.SYMTYPE, data
                tar.addfile(member)
    return path


# -- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["case", "case.tar.gz", "case.tgz", "case.tar"])
def test_what_is_saved_is_loaded_again(tmp_path, name):
    back = load(save(CAPTURE, tmp_path / "deep" / name))
    assert back.files["server.log"] == b"INFO up\n"
    assert back.gaps == CAPTURE.gaps
    assert b"note: hello" in back.files["capture.yaml"]


def test_gaps_that_came_later_are_saved_too(tmp_path):
    more = added(CAPTURE, "load.json", b"{}", Gap("load", "cut short"), Gap("gpu", "none"))
    back = load(save(more, tmp_path / "case"))
    assert back.gaps == (Gap("gpu", "none"), Gap("load", "cut short"))
    assert back.files["load.json"] == b"{}"


def test_a_name_in_use_is_not_overwritten_unless_told(tmp_path):
    for name in ("case", "case.tar.gz"):
        path = save(CAPTURE, tmp_path / name)
        with pytest.raises(Refused, match="is there already"):
            save(CAPTURE, path)
        save(Capture("gpu8", {"server.log": b"other\n"}), path, replace=True)
        assert load(path).files["server.log"] == b"other\n"
    assert sorted(os.listdir(tmp_path)) == ["case", "case.tar.gz"]


def test_an_empty_folder_may_be_filled(tmp_path):
    (tmp_path / "case").mkdir()
    save(CAPTURE, tmp_path / "case")


PLACES = {
    "taken": "is there already",
    "taken/server.log/case": "is no folder",
    "locked/case.tar.gz": "no right to write there",
}


@pytest.mark.parametrize("name", PLACES)
def test_where_a_capture_cannot_go_is_known_before_a_host_is_asked(tmp_path, name, monkeypatch):
    save(CAPTURE, tmp_path / "taken")
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr(store.os, "access", lambda path, mode: path.name != "locked")
    with pytest.raises(Refused, match=PLACES[name]):
        store.check_free(tmp_path / name)
    store.check_free(tmp_path / "new" / "case")


@pytest.mark.parametrize("name", ["case", "case.tar.gz"])
def test_a_capture_is_written_whole_or_not_at_all(tmp_path, name, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    monkeypatch.setattr(store.Path, "rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(Refused, match="No space left on device"):
        save(CAPTURE, tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_secrets_do_not_get_into_the_head_of_a_capture(tmp_path):
    made = Capture("gpu7", {"server.log": b"x"}, (Gap("log", "docker logs --api-key Geheim123: denied"),))
    assert "Geheim123" not in (save(made, tmp_path / "case") / "capture.yaml").read_text()


# -- reading ----------------------------------------------------------------------------------------------------------


def test_a_folder_made_by_hand_is_a_capture(tmp_path):
    (tmp_path / "server.log").write_text("INFO up\n")
    (tmp_path / "metrics.prom.gz").write_bytes(gzip.compress(b"x 1\n"))
    (tmp_path / "notes.txt").write_text("kept")
    (tmp_path / ".DS_Store").write_text("not kept")
    (tmp_path / "sub").mkdir()
    assert load(tmp_path).files == {"server.log": b"INFO up\n", "metrics.prom": b"x 1\n", "notes.txt": b"kept"}


@pytest.mark.parametrize("name", ["out.log", "out.txt", "out.log.gz", "vllm"])
def test_a_lone_log_is_a_capture(tmp_path, name):
    data = gzip.compress(b"INFO up\n") if name.endswith(".gz") else b"INFO up\n"
    (tmp_path / name).write_bytes(data)
    assert load(tmp_path / name).files == {"server.log": b"INFO up\n"}


@pytest.mark.parametrize("name", ["load.yaml", "gpu.json", "metrics.prom", "dmesg.txt", "cmdline"])
def test_a_lone_file_of_a_capture_folder_keeps_its_name(tmp_path, name):
    (tmp_path / name).write_bytes(b"vllm\0serve\0" if name == "cmdline" else b"a: 1\n")
    assert list(load(tmp_path / name).files) == [name]


def test_a_log_on_stdin_is_a_capture(monkeypatch):
    for data in (b"INFO up\n", gzip.compress(b"INFO up\n")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert load("-").files == {"server.log": b"INFO up\n"}


def test_an_archive_on_stdin_is_a_capture(tmp_path, monkeypatch):
    data = archive(tmp_path / "x.tgz", {"case/server.log": b"INFO up\n"}).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert load("-").files == {"server.log": b"INFO up\n"}


def test_an_archive_may_have_a_folder_around_its_files(tmp_path):
    path = archive(tmp_path / "c.tar.gz", {"./top/case/server.log": b"x\n", "./top/case/sub/deep.log": b"y\n",
                                          "./top/case/metrics.prom.gz": gzip.compress(b"m 1\n")})  # fmt: skip
    assert load(path).files == {"server.log": b"x\n", "metrics.prom": b"m 1\n"}


def test_paths_of_an_archive_that_lead_outside_are_left_out_and_said(tmp_path):
    path = archive(
        tmp_path / "c.tar.gz",
        {"case/server.log": b"x\n", "case/../../evil.log": b"y", "/etc/evil": b"z", "case/link.log": "/etc/passwd"},
    )
    capture = load(path)
    assert capture.files == {"server.log": b"x\n"}
    assert [g.what for g in capture.gaps] == ["evil.log", "evil"]
    assert not (tmp_path.parent / "evil.log").exists()


def test_utf16_text_is_text(tmp_path):
    (tmp_path / "out.log").write_bytes("INFO up\n".encode("utf-16"))
    assert load(tmp_path / "out.log").files["server.log"].startswith(b"\xff\xfe")


LINE = b"%09d ........................................................................\n"
HUGE = b"".join(LINE % i for i in range(110_000))


def test_a_huge_log_is_read_where_it_lies_and_saved_whole(tmp_path):
    (tmp_path / "a.log").write_bytes(HUGE)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(HUGE, 1))
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "server.log").write_bytes(HUGE)
    for path in (tmp_path / "a.log", tmp_path / "b.log.gz", folder):
        capture = load(path)
        assert (capture.files, list(capture.large), capture.gaps) == ({}, ["server.log"], ())
    save(load(folder), tmp_path / "copy")
    assert (tmp_path / "copy" / "server.log").read_bytes() == HUGE
    save(load(tmp_path / "b.log.gz"), tmp_path / "copy.tar.gz")
    assert load(tmp_path / "copy.tar.gz").files["server.log"] == HUGE


def test_of_a_huge_file_that_is_streamed_head_and_tail_are_kept_and_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "HEAD", 3 << 20)
    monkeypatch.setattr(store, "TAIL", 1 << 20)
    (tmp_path / "metrics.prom").write_bytes(HUGE)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(HUGE)))
    for path, name in (("-", "server.log"), (tmp_path / "metrics.prom", "metrics.prom")):
        capture = load(path)
        text = capture.files[name]
        assert text.startswith(LINE % 0) and text.endswith(LINE % 109_999) and len(text) < 5 << 20
        assert b"left out here" in text
        assert "8 MiB long: the first 3 MiB and the last 1 MiB read were kept" in capture.gaps[0].why


def cases():
    good = io.BytesIO()
    with tarfile.open(fileobj=good, mode="w:gz") as tar:
        member = tarfile.TarInfo("case/server.log")
        member.size = 300_000
        tar.addfile(member, io.BytesIO(os.urandom(300_000)))
    whole = good.getvalue()
    return {
        "half.tar.gz": (whole[: len(whole) // 2], "damaged or half-written"),
        "half.tar": (gzip.decompress(whole)[:9000], "damaged or half-written"),
        "half.log.gz": (gzip.compress(b"INFO up\n" * 1000)[:-6], "damaged or half-written"),
        "empty.log": (b"", "is empty"),
        "empty.tar.gz": (b"", "is empty"),
        "blank.log": (b"\n \n", "is empty"),
        "binary.log": (b"\x7fELF\x00\x01\x02" * 100, "is not text"),
        "case.yaml": (b"id: x\nexpected: {cause: none}\n", "is no capture"),
        "report.json": (b"{}", "is no capture"),
        "mine.yaml": (b"schema: dflash-doctor/baseline/1\nname: x\n", "is a baseline, no capture: .* --baseline"),
    }


@pytest.mark.parametrize("name", cases())
def test_what_is_no_capture_is_refused_in_one_sentence(tmp_path, name):
    data, words = cases()[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(Refused, match=words) as refused:
        load(tmp_path / name)
    assert "\n" not in str(refused.value)


def test_what_cannot_be_read_is_refused_or_a_gap(tmp_path, monkeypatch):
    with pytest.raises(Refused, match="no such file"):
        load(tmp_path / "missing.log")
    with pytest.raises(Refused, match="is a device"):
        load("/dev/zero")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Refused, match="holds no file"):
        load(tmp_path / "empty")
    (tmp_path / "empty" / "case").mkdir()
    with pytest.raises(Refused, match="it holds the folder case: name that"):
        load(tmp_path / "empty")
    archive(tmp_path / "folders.tar.gz", {"case/link.log": "/etc/passwd"})
    with pytest.raises(Refused, match="holds no file"):
        load(tmp_path / "folders.tar.gz")
    case = tmp_path / "case"
    case.mkdir()
    (case / "server.log").write_text("INFO up\n")
    (case / "metrics.prom.gz").write_bytes(gzip.compress(b"x 1\n" * 100)[:-5])
    assert "damaged or half-written" in load(case).gaps[0].why
    real = store.Path.open

    def denied(self, *args, **more):
        if self.name == "server.log":
            raise PermissionError(13, "Permission denied")
        return real(self, *args, **more)

    monkeypatch.setattr(store.Path, "open", denied)
    with pytest.raises(Refused, match="Permission denied"):
        load(case / "server.log")


def test_a_broken_capture_yaml_costs_its_own_words_only(tmp_path):
    (tmp_path / "server.log").write_text("INFO up\n")
    for text in ("gaps: [", "- a list", "gaps: text", "gaps: [1, {what: x}]", "\x00"):
        (tmp_path / "capture.yaml").write_text(text)
        assert load(tmp_path).gaps == ()
