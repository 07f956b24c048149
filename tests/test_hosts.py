"""TARGET -> Host."""

import pytest

from dflash_doctor.hosts import resolve
from dflash_doctor.model import Refused


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config"

    def write(text):
        path.write_text(text)
        return path

    write("")
    return write


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("gpu7", "ssh"),
        ("me@gpu7:2222", "ssh"),
        ("me@localhost", "ssh"),
        ("10.0.0.7", "ssh"),
        ("[2001:db8::7]:2222", "ssh"),
        ("2001:db8::7", "ssh"),
        ("localhost", "local"),
        ("http://gpu7:8000", "url"),
        ("HTTPS://gpu7", "url"),
        ("./case", "capture"),
        ("/srv/case", "capture"),
        ("case.tar.gz", "capture"),
        ("server.log", "capture"),
        ("load.yaml", "capture"),
        ("-", "capture"),
        (".", "capture"),
    ],
)
def test_the_form_of_a_target_says_what_it_is(text, kind, config):
    assert resolve(text, config("")).kind == kind


def test_user_and_port_are_read_from_the_target(config):
    host = resolve("me@gpu7:2222", config("Host gpu7\n  User other\n  Port 22\n"))
    assert (host.user, host.address, host.port) == ("me", "gpu7", 2222)


def test_the_user_may_contain_an_at_sign(config):
    assert resolve("me@corp@gpu7", config("")).user == "me@corp"


def test_ssh_config_says_how_to_get_there(config):
    host = resolve(
        "gpu7",
        config("Host gpu*\n  HostName 10.0.0.7\n  User tuner\n  Port 2200\n  IdentityFile ~/.ssh/special\n"
               "  UserKnownHostsFile /srv/known\n  ProxyCommand nc %h %p\n"),
    )  # fmt: skip
    assert (host.address, host.user, host.port) == ("10.0.0.7", "tuner", 2200)
    assert host.options["identityfile"][0].endswith("/.ssh/special")
    assert host.options["userknownhostsfile"] == "/srv/known"
    assert host.options["proxycommand"] == "nc 10.0.0.7 2200"


def test_an_include_stands_where_it_is_written(config, tmp_path):
    (tmp_path / "more").write_text("Host gpu8\n  HostName 10.0.0.8\n")
    path = config("Include more\nUser everybody\nHost gpu7\n  HostName 10.0.0.7\n")
    assert resolve("gpu8", path).address == "10.0.0.8"
    # the option after the Include is for all hosts, not for the last one of the included file
    assert resolve("gpu7", path).user == "everybody"


def test_a_configuration_that_includes_itself_is_refused(config, tmp_path):
    with pytest.raises(Refused, match="includes itself"):
        resolve("gpu7", config("Include config\n"))


def test_jumps_are_resolved_in_the_order_they_are_gone_through(config):
    path = config(
        "Host gpu7\n  ProxyJump first,me@second:2222\nHost first\n  HostName 10.0.0.1\n  ProxyJump zero\n"
        "Host second\n  HostName 10.0.0.2\n"
    )
    jumps = resolve("gpu7", path).options["jumps"]
    assert [j.address for j in jumps] == ["zero", "10.0.0.1", "10.0.0.2"]
    assert (jumps[2].user, jumps[2].port) == ("me", 2222)


def test_a_jump_for_every_host_does_not_lead_the_jump_host_through_itself(config):
    path = config("Host *\n  ProxyJump bastion\n")
    assert [j.address for j in resolve("gpu7", path).options["jumps"]] == ["bastion"]
    assert resolve("bastion", path).options["jumps"] == ()


def test_jumps_that_go_round_in_circles_are_refused(config):
    with pytest.raises(Refused, match="circles"):
        resolve("a", config("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n"))


def test_a_bare_word_is_a_host_even_where_a_folder_has_its_name(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpu7").mkdir()
    host = resolve("gpu7", config(""))
    assert host.kind == "ssh"
    assert "write ./gpu7" in host.options["note"]


def test_the_base_url_of_a_client_is_the_endpoint(config):
    assert resolve("http://gpu7:8000/v1/", config("")).address == "http://gpu7:8000"


@pytest.mark.parametrize(
    "text",
    ["", "two words", "-oProxyCommand=x", "gpu7:99999", "gpu7:ssh", "http://", "http://gpu7:port", "a;b", "$(x)@gpu7",
     "[::1]:0", "gpu7\n"],
)  # fmt: skip
def test_what_is_no_target_is_refused_in_one_sentence(text, config):
    if text == "gpu7\n":  # a line end copied along is no fault
        assert resolve(text, config("")).address == "gpu7"
        return
    with pytest.raises(Refused) as refused:
        resolve(text, config(""))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["\x00\x01\x02\n", "Host\n", "Port twenty\n"])
def test_a_broken_configuration_is_refused_not_a_traceback(text, config):
    with pytest.raises(Refused, match=r"ssh configuration|not a port"):
        resolve("gpu7", config(text))


def test_a_configuration_that_was_named_must_be_there(tmp_path):
    with pytest.raises(Refused, match="no such ssh configuration"):
        resolve("gpu7", tmp_path / "missing")


def test_an_address_of_another_kind_is_no_file():
    with pytest.raises(Refused, match="ftp:// addresses are not known"):
        resolve("ftp://gpu7/server.log")
