"""Secrets do not leave the host; settings do."""

import json
import time

import pytest
from guests import hide, wire

SECRET = "Zx9-geheim-Q7"


@pytest.fixture
def hider():
    return hide.Hider(["speculative_token_map"])


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve m --api-key {}",
        "['--api-key', '{}', '--port', '8000']",
        "non-default args: {{'api_key': ['{}'], 'port': 8000}}",
        "server_args=ServerArgs(model_path='m', api_key='{}', tp_size=2)",
        "server_args={{'admin_api_key': '{}'}}",
        '"hf_token": "{}"',
        '\\"password\\": \\"{}\\"',
        "HF_TOKEN={} python serve.py",
        "MY_SECRET_THING={}",
        "WANDB_API_KEY: {}",
        "Authorization: Bearer {}",
        "-H 'authorization: Basic {}'",
        "--header 'X-Api-Key: {}'",
        "https://me:{}@hub.example/model",
        "https://{}@hub.example/model",
        "GET /v1/models?api_key={}&x=1",
        "passphrase='{}'",
        "AUTH_HEADER={}",
    ],
)
def test_a_secret_is_hidden_wherever_it_stands(line, hider):
    shown = hider.text(line.format(SECRET))
    assert SECRET not in shown and "***" in shown


@pytest.mark.parametrize(
    "token", ["hf_AbCdEfGhIjKlMnOp123", "sk-abcdef123456", "ghp_0123456789abcdefghij", "AKIAIOSFODNN7EXAMPLE",
              "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_-123", "nvapi-0123456789abcdef"],
)  # fmt: skip
def test_a_token_is_hidden_by_its_look_alone(token, hider):
    assert token not in hider.text(f"loading with {token} now")


@pytest.mark.parametrize(
    "line",
    [
        "Decode batch. #running-req: 1, #token: 120, token usage: 0.01, #new-token: 128, accept len: 3.2",
        "Avg prompt throughput: 12.0 tokens/s, Avg generation throughput: 73.5 tokens/s",
        "max_num_batched_tokens=8192, long_prefill_token_threshold=0, tokenizer='Qwen/Qwen3-8B'",
        "tokenizer_path='Qwen/Qwen3-8B', skip_tokenizer_init=False, api_key=None, hf_token=None",
        "speculative_token_map='/models/map.pt'",
        "hf_overrides={'a': 1} hf_config hf_text_config",
        "task-scheduler disk-cache",
        "num_key_value_heads: 8, key_dim: 128",
        "KeyError: 'model.layers.0'",
        "TOKENIZERS_PARALLELISM=false",
        "SGLANG_INIT_NEW_TOKEN_RATIO=0.7",
        "git+ssh clone of git user@host",
        "Using FLASH_ATTN backend; key cache dtype fp8",
    ],
)
def test_settings_and_counts_are_left_as_they_are(line, hider):
    assert hider.text(line) == line


def test_a_secret_of_the_launch_line_is_hidden_in_every_text_after(hider):
    argv = hider.argv(["vllm", "serve", "--api-key", SECRET, "Qwen/Qwen3-8B", "--port", "8000"])
    assert argv == ["vllm", "serve", "--api-key", "***", "Qwen/Qwen3-8B", "--port", "8000"]
    assert hider.text(f"request said {SECRET}!") == "request said ***!"


def test_several_values_of_one_flag_are_hidden(hider):
    assert hider.argv(["--api-key", "one1", "two2", "--port", "1"]) == ["--api-key", "***", "***", "--port", "1"]
    assert hider.argv(["--hf-token=abc", "HF_TOKEN=abc"]) == ["--hf-token=***", "HF_TOKEN=***"]


def test_only_names_of_the_list_travel_and_their_secrets_do_not(hider):
    pairs = [("VLLM_API_KEY", SECRET), ("VLLM_USE_V1", "1"), ("AWS_SECRET_ACCESS_KEY", "aws-geheim-1"), ("HOME", "/")]
    assert hider.environ(pairs, ["VLLM_*"]) == ["VLLM_API_KEY=***", "VLLM_USE_V1=1"]
    # what is not sent is known to be secret all the same
    assert "aws-geheim-1" not in hider.text("boto said aws-geheim-1")


def test_json_stays_json(hider):
    text = json.dumps({"api_key": SECRET, "env": {"HF_TOKEN": [SECRET]}, "launch_command": f"x --api-key {SECRET}",
                       "max_total_num_tokens": 5, "token_ids": [1, 2], "speculative_token_map": "/m"})  # fmt: skip
    shown = json.loads(hider.json(text))
    assert SECRET not in json.dumps(shown)
    assert shown["max_total_num_tokens"] == 5 and shown["speculative_token_map"] == "/m"


def test_json_that_is_none_is_text(hider):
    assert hider.json('{"api_key": "x') == '{"api_key": "***'


def test_deep_json_is_no_trouble(hider):
    assert "***" in hider.json("[" * 400 + '"x"' + "]" * 400)


@pytest.mark.parametrize("piece", ["key=", "key: [", "key='", "-key ", "://", "a-", "'", "key", "@", "token token="])
def test_hiding_takes_linear_time(piece, hider):
    def seconds(size):
        text = piece * (size // len(piece)) + "key"
        began = time.perf_counter()
        hider.text(text)
        return time.perf_counter() - began

    seconds(20_000)
    small, large = max(seconds(40_000), 0.004), seconds(320_000)
    assert large < 40 * small  # eight times as long, with room for a busy machine


def test_nothing_leaves_without_passing_the_hider(hider):
    class Stream:
        said = b""

        def write(self, data):
            self.said += data

        def flush(self):
            pass

    stream = Stream()
    out = wire.Wire(stream, hider, lambda: None)
    out.file("server.log", f"api_key={SECRET}\n")
    out.file("server_info.json", json.dumps({"api_key": SECRET}))
    out.gap("log", f"docker logs --api-key {SECRET}: denied")
    out.note(f"token={SECRET}")
    assert SECRET.encode() not in stream.said
    assert json.loads(stream.said.splitlines()[0]) == {
        "file": "server.log", "new": True, "data": "api_key=***\n",
    }  # fmt: skip


def test_a_client_that_is_gone_is_noticed_at_the_first_word(hider):
    class Broken:
        def write(self, data):
            raise BrokenPipeError

        def flush(self):
            pass

    gone = []
    out = wire.Wire(Broken(), hider, lambda: gone.append(True))
    out.note("hello")
    out.note("hello again")
    assert gone == [True]
