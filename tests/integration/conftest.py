"""Fixtures of the tests with real parts."""

from __future__ import annotations

import shutil

import pytest
from loopback import FakeEngine, Sshd, sshd_program


@pytest.fixture(scope="session")
def sshd_folder(tmp_path_factory):
    """Where keys of the session lie; skipped with a plain message where there is no sshd."""
    if sshd_program() is None or shutil.which("ssh-keygen") is None:
        pytest.skip("OpenSSH's sshd is not installed (Debian: apt-get install openssh-server)")
    return tmp_path_factory.mktemp("sshd")


@pytest.fixture(scope="session")
def sshd(sshd_folder):
    """The sshd that most tests share."""
    server = Sshd(sshd_folder / "plain")
    yield server
    server.stop()


@pytest.fixture
def engine(tmp_path):
    """A fake engine of this test alone."""
    fake = FakeEngine(tmp_path / "engine")
    yield fake
    fake.stop()
