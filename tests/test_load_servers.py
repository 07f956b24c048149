"""The load against servers of every kind: busy, half-equipped, silent, none at all."""

from __future__ import annotations

import httpx
import pytest

from dflash_doctor.load.rounds import run as start
from dflash_doctor.model import Refused
from tests.load_server import Server, loaded, refusal

# -- who else is there ------------------------------------------------------------------------------------------------


def test_a_busy_server_is_left_alone():
    server = Server(foreign=lambda now: 3)
    why, seconds = refusal(server)
    assert why.startswith("3 other requests are running") and "--busy-ok" in why
    assert server.asked == [] and seconds < 1


def test_a_busy_server_is_loaded_when_that_is_wanted_and_the_file_says_so():
    file, _ = loaded(Server(foreign=lambda now: 1), allowed=None)
    assert "1 other request is running when the load began" in file.notes
    assert [r.server.foreign_running_max for r in file.rounds] == [1, 1]


def test_a_few_requests_of_others_may_be_allowed():
    assert len(loaded(Server(foreign=lambda now: 1), allowed=1)[0].rounds) == 2
    assert "2 other requests are running" in refusal(Server(foreign=lambda now: 2), allowed=1)[0]


def test_requests_of_others_that_come_meanwhile_are_seen():
    file, _ = loaded(Server(foreign=lambda now: 4 if 6 < now < 9 else 0))
    assert max(r.server.foreign_running_max for r in file.rounds) == 4
    assert any(n.startswith("up to 4 requests of others ran beside") for n in file.notes)


def test_a_server_without_metrics_is_measured_without_them():
    file, _ = loaded(Server(metrics=False))
    assert all(r.server is None for r in file.rounds) and len(file.rounds) == 2
    assert file.notes == ["the server exports no metrics: whether others use it meanwhile is not known"]


# -- servers of every kind --------------------------------------------------------------------------------------------


def test_a_server_without_ignore_eos_is_asked_without():
    server = Server(refuses=lambda body, path, n: (400, "unknown field ignore_eos") if "ignore_eos" in body else None)
    file, _ = loaded(server)
    assert file.api == "/v1/chat/completions" and len(file.rounds) == 2
    assert file.notes == ["the server does not take ignore_eos: answers end when they end"]


@pytest.mark.parametrize("status", [400, 404])
def test_a_server_without_a_chat_template_gets_completions(status):
    server = Server(refuses=lambda body, path, n: (status, "no chat template") if "chat" in path else None)
    file, _ = loaded(server)
    assert file.api == "/v1/completions" and len(file.rounds) == 2
    assert server.asked[-1][1]["ignore_eos"] is True
    assert file.notes[0].startswith(f"requests go to /v1/completions, without a chat template (HTTP {status}")
    assert len([p for p, _ in server.asked if "chat" in p]) <= 2


def test_an_sglang_server_that_has_only_its_own_api_is_asked_so():
    server = Server(refuses=lambda body, path, n: (404, "Not Found") if path.startswith("/v1") else None)
    file, _ = loaded(server)
    assert file.api == "/generate" and [len(r.requests) for r in file.rounds] == [8, 8]
    assert {r.output_tokens for r in file.rounds[0].requests} == {file.rounds[0].max_tokens}


def test_a_server_that_has_only_anthropics_api_is_asked_so():
    server = Server(refuses=lambda body, path, n: (404, "Not Found") if path != "/v1/messages" else None)
    file, _ = loaded(server)
    assert file.api == "/v1/messages" and {r.status for x in file.rounds for r in x.requests} == {"ok"}
    assert file.notes[0].startswith("requests go to /v1/messages: answers end when they end (HTTP 404")


def test_answers_that_end_early_are_told_of():
    file, _ = loaded(Server(longest=20))
    assert file.rounds[0].requests[0].output_tokens == 20
    assert file.notes[0] == "8 answers ended before their time, 1 at once: lengths are not equal"


def test_an_api_that_was_asked_for_is_the_only_one_tried():
    server = Server(refuses=lambda body, path, n: (400, "no") if path == "/v1/completions" else None)
    assert refusal(server, apis=("/v1/completions",))[0].endswith('HTTP 400: {"error": {"message": "no"}}')
    assert {path for path, _ in server.asked} == {"/v1/completions"}
    assert loaded(Server(), apis=("/v1/completions",))[0].api == "/v1/completions"
    with pytest.raises(Refused, match="--api /chat is not known; it is one of /v1/chat/completions"):
        start("http://gpu7:8000", api="/chat")


def test_a_server_that_refuses_every_form_is_quoted():
    why, seconds = refusal(Server(refuses=lambda body, path, n: (400, "max_tokens is too many")))
    assert why.startswith("the first requests fail, so nothing can be measured: HTTP 400")
    assert "max_tokens is too many" in why and seconds < 1


def test_a_wanted_key_is_not_tried_around():
    server = Server(refuses=lambda body, path, n: (401, "Unauthorized"))
    assert "HTTP 401" in refusal(server)[0] and len(server.asked) == 1
    why, _ = refusal(Server(models=(401, b"")))
    assert why == "http://gpu7:8000/v1/models answers 401; give the key with --api-key-env or --api-key-file"


def test_a_key_that_cannot_be_sent_is_not_shown():
    why, _ = refusal(Server(), api_key="se\ncret")
    assert why == "the API key has characters that cannot be sent in a header"


@pytest.mark.parametrize(
    "body", [b'{"data": []}', b"<html>hello</html>", b"[]", b'{"data": [{}]}', b"\xff", b"[" * 10**5]
)
def test_a_server_that_names_no_model_is_no_engine(body):
    assert refusal(Server(models=(200, body)))[0].endswith("names no model: is this a vLLM or SGLang server?")


def test_a_server_that_accepts_and_never_answers_ends_within_the_cap():
    why, seconds = refusal(Server(silent=("/v1/models",)))
    assert "no answer to /v1/models within 5 s" in why and seconds < 6
    why, seconds = refusal(Server(silent=("/v1/chat/completions",)))
    assert why == "the first requests fail, so nothing can be measured: the time was up" and seconds <= 31


def test_metrics_that_never_come_do_not_hold_up_the_rounds():
    file, seconds = loaded(Server(silent=("/metrics",)))
    assert len(file.rounds) == 2 and seconds <= 30 + 6 and file.rounds[0].server is None


def test_nobody_listening_is_said():
    def refused(request):
        raise httpx.ConnectError("All connection attempts failed")

    assert (
        refusal(httpx.MockTransport(refused))[0]
        == "nothing answers at http://gpu7:8000: All connection attempts failed"
    )
