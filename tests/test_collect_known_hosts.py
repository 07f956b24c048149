"""Whether a host's key is the one we know."""

import base64
import hashlib
import hmac

import paramiko
import pytest

from dflash_doctor.collect import known_hosts, ssh
from dflash_doctor.model import Host, Refused

KEY, OTHER = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()


def line(names, key=KEY, marker=""):
    return f"{marker}{names} {key.get_name()} {key.get_base64()}\n"


@pytest.fixture
def judge(tmp_path):
    def judging(text, name="gpu7", key=KEY):
        path = tmp_path / "known_hosts"
        path.write_text(text)
        return known_hosts.judge(known_hosts.read([path]), name, key.get_name(), key.get_base64())[0]

    return judging


def hashed(name):
    salt = b"0123456789abcdefghij"
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (line("gpu7"), "gpu7"),
        (line("other,gpu7,10.0.0.7"), "gpu7"),
        (line("GPU7"), "gpu7"),
        (line("[gpu7]:2222"), "[gpu7]:2222"),
        (line("*.lab.example"), "gpu7.lab.example"),
        (line("gpu?"), "gpu7"),
        (line(hashed("gpu7")), "gpu7"),
        (line(hashed("[gpu7]:2222")), "[gpu7]:2222"),
        ("# a comment\n\ngarbage\n" + line("gpu7"), "gpu7"),
        (line("gpu7", OTHER) + line("gpu7"), "gpu7"),  # a host may have two keys of one type while it changes over
    ],
)
def test_a_known_key_is_known_however_it_is_written(text, name, judge):
    assert judge(text, name) == "known"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "gpu7"),
        (line("gpu8"), "gpu7"),
        (line("gpu7"), "[gpu7]:2222"),
        (line("gpu*,!gpu7"), "gpu7"),
        (line(hashed("gpu8")), "gpu7"),
        ("|1|broken|hash ssh-ed25519 AAAA\n", "gpu7"),
        (line("gpu7", marker="@cert-authority "), "gpu7"),
        ("gpu7 ssh-rsa AAAAB3Nza\n", "gpu7"),  # a key of another type says nothing about this one
    ],
)
def test_what_is_not_written_is_unknown(text, name, judge):
    assert judge(text, name) == "unknown"


def test_another_key_of_the_same_type_is_a_changed_key(judge):
    assert judge(line("gpu7", OTHER)) == "changed"


def test_a_revoked_key_is_revoked_even_where_it_is_also_known(judge):
    assert judge(line("gpu7") + line("*", marker="@revoked ")) == "revoked"


def test_an_accepted_key_is_known_from_then_on(tmp_path, judge):
    path = tmp_path / "deep" / "known_hosts"
    known_hosts.write(path, "[gpu7]:2222", KEY, hashed=False)
    path.write_text(path.read_text().rstrip("\n"))  # an editor that drops the last line end
    known_hosts.write(path, "gpu8", OTHER, hashed=True)
    entries = known_hosts.read([path, tmp_path / "missing"])
    assert known_hosts.judge(entries, "[gpu7]:2222", KEY.get_name(), KEY.get_base64())[0] == "known"
    assert known_hosts.judge(entries, "gpu8", OTHER.get_name(), OTHER.get_base64())[0] == "known"
    assert "gpu8" not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


def check(tmp_path, text, accept=False, **options):
    path = tmp_path / "known_hosts"
    path.write_text(text)
    files = {"userknownhostsfile": str(path), "globalknownhostsfile": "none"}
    host = Host("gpu7", "ssh", "gpu7", 2222, "me", {**files, **options})
    ssh._check_key(host, "[gpu7]:2222", KEY, known_hosts.read([path]), accept)
    return path.read_text()


def test_an_unknown_key_is_refused_with_fingerprint_and_the_way_to_accept_it(tmp_path):
    with pytest.raises(Refused) as refused:
        check(tmp_path, "")
    said = str(refused.value)
    assert KEY.fingerprint in said
    assert "--accept-new-host-key" in said
    assert f"ssh-keyscan -t ecdsa -p 2222 gpu7 >> {tmp_path}/known_hosts" in said


def test_an_unknown_key_is_written_down_when_it_may_be_trusted(tmp_path):
    assert check(tmp_path, "", accept=True) == line("[gpu7]:2222")
    assert check(tmp_path, "", stricthostkeychecking="accept-new") == line("[gpu7]:2222")


@pytest.mark.parametrize("options", [{}, {"stricthostkeychecking": "no"}])
def test_a_changed_key_is_refused_loudly_whatever_was_said(tmp_path, options):
    with pytest.raises(Refused) as refused:
        check(tmp_path, line("[gpu7]:2222", OTHER), accept=True, **options)
    said = str(refused.value)
    assert "HAS CHANGED" in said and KEY.fingerprint in said and OTHER.fingerprint in said
    assert f"ssh-keygen -f {tmp_path}/known_hosts -R '[gpu7]:2222'" in said
