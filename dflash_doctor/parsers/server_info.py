"""`server_info.json`, `version.json`, `models.json`: what a running server says about itself. Values are in effect.

SGLang's /server_info (/get_server_info before 0.5.10): its arguments as resolved, then the state of each scheduler:

    {"model_path": "/models/Qwen3-8B", "tp_size": 2, …, "max_total_num_tokens": 32768, "internal_states": [{…}], "version": "0.5.23"}

0.4.6 has one flat object. vLLM's /server_info (developer mode only): {"vllm_config": text or object, "vllm_env": {…},
"system_env": {…}}. `version.json` is {"version": "0.32.0"}, `models.json` the list of /v1/models.
"""  # noqa: E501

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from dflash_doctor import settings
from dflash_doctor.model import Evidence, Facts, Gap, Sample, Setting, Unreadable
from dflash_doctor.parsers import packages, shell
from dflash_doctor.parsers.texts import refuse_binary

READS: tuple[str, ...] = ("server_info.json", "version.json", "models.json")

SHOWN = 300  # characters of a value in evidence

# what SGLang's answer holds besides its arguments
STATE = (
    "internal_states", "version", "status", "launch_command", "startup_time", "frontend", "kv_events",
    "last_gen_throughput", "avg_spec_accept_length", "memory_usage", "max_total_num_tokens",
    "max_req_input_len", "load", "step_time_dict", "effective_max_running_requests_per_dp",
    "decode_cuda_graph_bs", "decode_cuda_graph_memory_gb", "world_size", "hicache_object_layout", "env_vars",
    "dspark_info_record", "weight_version", "instance_id",
)  # fmt: skip


def parse(text: str, source: str) -> Facts:
    """What the answer says, whichever of the three it is."""
    refuse_binary(text, "JSON")
    said = _loaded(text)
    if source.startswith("models"):
        return _models(said, source)
    if source.startswith("version"):
        return _version(said)
    if not isinstance(said, Mapping):
        raise Unreadable("this is no answer of /server_info: a JSON object was expected")
    if "vllm_config" in said:
        return _vllm(said, source)
    if "model_path" in said or "internal_states" in said:
        return _sglang(said, source)
    raise Unreadable(_refusal(said) or "neither vLLM's nor SGLang's answer to /server_info")


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as e:
        raise Unreadable("JSON nested too deep") from e
    except ValueError as e:
        if text.lstrip().startswith("<"):
            raise Unreadable("a web page, not JSON: was the right port asked?") from e
        raise Unreadable(f"not JSON: {e}") from e


def _refusal(said: Mapping[str, Any]) -> str:
    """An error page in JSON: {"detail": "Not Found"}, {"error": "Unauthorized"}."""
    why = next((said[k] for k in ("detail", "error", "message") if said.get(k)), None)
    return f"the server refused: {str(why)[:200]}" if why else ""


# -- SGLang -----------------------------------------------------------------------------------------------------------


def _sglang(said: Mapping[str, Any], source: str) -> Facts:
    version = _text(said.get("version"))
    states = said.get("internal_states")
    ranks = [s for s in states if isinstance(s, Mapping)] if isinstance(states, list) else []
    # a scheduler resolves some arguments further; 0.4.6 has the state of its one scheduler at the top
    state = {**said, **(ranks[0] if ranks else {})}
    args = {k: v for k, v in state.items() if k not in STATE}
    found = [*_effective("sglang", args, version, source)]
    found.extend(_state_settings(state, found, source))
    asked = said.get("launch_command")
    if isinstance(asked, str):
        words = [w for c in shell.read(asked).commands for w in c.words]
        found.extend(settings.from_flags("sglang", words, version, source))
    variables = state.get("env_vars")
    if isinstance(variables, Mapping):
        found.extend(settings.from_environ("sglang", {str(k): str(v) for k, v in variables.items()}, version))
    return Facts(
        engine="sglang",
        version=version,
        settings=tuple(found),
        samples=tuple(_state_samples(said, ranks or [said], source)),
        served=True if said.get("status") in (None, "ready") else None,
    )


def _state_settings(state: Mapping[str, Any], found: list[Setting], source: str) -> Iterator[Setting]:
    known = {s.key: s.value for s in found}
    limit = _number(state.get("effective_max_running_requests_per_dp"))
    if limit is not None and known.get("parallel.dp", 1) == 1:
        yield _said("sched.max_seqs", int(limit), "effective_max_running_requests_per_dp", limit, source)
    captured = state.get("decode_cuda_graph_bs")
    if isinstance(captured, list) and captured and known.get("cudagraph.mode") != "none":
        sizes = tuple(sorted({int(n) for x in captured if (n := _number(x)) is not None}))
        yield _said("cudagraph.sizes", sizes, "decode_cuda_graph_bs", captured, source)


def _state_samples(said: Mapping[str, Any], ranks: list[Mapping[str, Any]], source: str) -> Iterator[Sample]:
    tokens = _number(said.get("max_total_num_tokens"))
    if tokens:
        yield Sample("kv_tokens", tokens, evidence=Evidence(source, f"max_total_num_tokens: {tokens:g}"))
    lengths = [n for r in ranks if (n := _number(r.get("avg_spec_accept_length")))]  # 0 before the first draft
    if lengths:
        mean = sum(lengths) / len(lengths)
        shown = Evidence(source, f"avg_spec_accept_length: {mean:g}")
        yield Sample("accept_length", mean, conditions={"from": "the mean since the server started"}, evidence=shown)
    for size, seconds in _steps(ranks):
        shown = Evidence(source, f"step_time_dict: {size:g}: {seconds:g}")
        yield Sample("step_time_ms", seconds * 1000, concurrency=size, evidence=shown)


def _steps(ranks: list[Mapping[str, Any]]) -> Iterator[tuple[float, float]]:
    """Median step time by batch size, kept where SGLANG_RECORD_STEP_TIME is set."""
    recorded = ranks[0].get("step_time_dict") if ranks else None
    for size, times in recorded.items() if isinstance(recorded, Mapping) else ():
        measured = [n for t in times if (n := _number(t))] if isinstance(times, list) else []
        if measured and str(size).isdigit() and len(str(size)) < 10:
            yield float(size), float(median(measured))


# -- vLLM -------------------------------------------------------------------------------------------------------------


def _vllm(said: Mapping[str, Any], source: str) -> Facts:
    system = said.get("system_env")
    system = system if isinstance(system, Mapping) else {}
    version = _text(system.get("vllm_version"))
    config = said["vllm_config"]
    gaps: tuple[Gap, ...] = ()
    if isinstance(config, str):
        config = settings.read_config(config)
    if not isinstance(config, Mapping) or not config:
        config, gaps = {}, (Gap(source, "vllm_config cannot be read"),)
    found = [*_effective("vllm", config, version, source)]
    found.extend(_resolved_environment(said.get("vllm_env"), source))
    listed = system.get("pip_packages")
    installed: Mapping[str, str] = {}
    if isinstance(listed, str) and listed.strip():
        try:
            installed = packages.parse(listed, source).packages
        except Unreadable as e:
            gaps = (*gaps, Gap(source, f"pip_packages: {e}"))
    return Facts(
        engine="vllm",
        version=version,
        settings=tuple(found),
        packages=installed,
        host=_host(system),
        gaps=gaps,
        served=True,
    )


def _resolved_environment(env: Any, source: str) -> Iterator[Setting]:
    """Every VLLM_* variable as resolved, whether it was set or not; those are in effect, not asked for."""
    for name, value in env.items() if isinstance(env, Mapping) else ():
        if settings.tunes(str(name)) and value not in (None, "", []):
            shown = Evidence(source, f"{name}: {value}"[:SHOWN])
            yield Setting(f"env.{name}", _text(value), "effective", str(name), shown)


def _host(system: Mapping[str, Any]) -> dict[str, Any]:
    names = {"nvidia_driver_version": "driver_version", "cuda_runtime_version": "cuda_version"}
    return {ours: system[theirs] for theirs, ours in names.items() if system.get(theirs)}


# -- /version, /v1/models ---------------------------------------------------------------------------------------------


def _version(said: Any) -> Facts:
    version = said.get("version") if isinstance(said, Mapping) else said
    if not isinstance(version, str) or not version[:1].isalnum() or len(version) > 100:
        raise Unreadable((_refusal(said) if isinstance(said, Mapping) else "") or 'no {"version": "…"} in it')
    return Facts(version=version)


def _models(said: Any, source: str) -> Facts:
    models = said.get("data") if isinstance(said, Mapping) else None
    named = [m for m in models if isinstance(m, Mapping)] if isinstance(models, list) else []
    if not named:
        raise Unreadable((_refusal(said) if isinstance(said, Mapping) else "") or "no model is listed")
    model = next((m for m in named if m.get("parent") is None), named[0])  # the others are adapters
    owner = _text(model.get("owned_by"))
    engine = owner if owner in ("vllm", "sglang") else None
    found = []
    length = _number(model.get("max_model_len"))
    if length is not None:
        found.append(_said("mem.max_context", int(length), "max_model_len", f"{length:g}", source))
    if engine == "vllm" and isinstance(model.get("root"), str):  # SGLang repeats the served name here
        found.append(_said("model.path", model["root"], "root", model["root"], source))
    if isinstance(model.get("id"), str):
        found.append(_said("model.served_name", (model["id"],), "id", model["id"], source))
    return Facts(engine=engine, settings=tuple(found), served=True)


# -- words ------------------------------------------------------------------------------------------------------------


def _effective(engine: str, args: Mapping[str, Any], version: str | None, source: str) -> tuple[Setting, ...]:
    """Settings of a dict of arguments, each with its own entry as evidence."""
    flat = settings.flatten(args)

    def seen(name: str) -> Evidence:
        shown = settings.HIDDEN if settings.secret(name, flat.get(name)) else flat.get(name)
        return Evidence(source, f"{name}: {shown}"[:SHOWN])

    return settings.told(engine, args, version, "effective", seen)


def _said(key: str, value: Any, name: str, raw: Any, source: str) -> Setting:
    return Setting(key, value, "effective", name, Evidence(source, f"{name}: {raw}"[:SHOWN]))


def _number(value: Any) -> float | None:
    """A number above nothing that a counter or a size can be."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e15:
        return float(value)
    return None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)[:2000]
