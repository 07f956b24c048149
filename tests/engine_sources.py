"""What an engine's own sources say about its command line: read from a wheel, nothing installed, nothing imported.

    s = read(Path("vllm-0.33.0-….whl"))
    s.options["--max-num-seqs"].default       the default its configuration class declares
    s.keys["speculative_config.method"]       a key of a JSON option, with the words it accepts
    s.variables["VLLM_USE_DEEP_GEMM"]         an environment variable

vLLM declares options as fields of configuration classes that `arg_utils.py` hands to argparse; SGLang called argparse
itself until 0.5.10 and declares annotated fields since.
"""

from __future__ import annotations

import argparse
import ast
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

UNKNOWN = object()  # a default or a list of words that only running the engine tells
READ = {
    "vllm": re.compile(
        r"vllm/(?:config(?:/.*)?|engine/arg_utils|entrypoints/.*cli_args|entrypoints/cli/serve|envs(?:/.*)?"
        r"|v1/attention/backends/registry|attention/backends/registry|platforms/interface"
        r"|model_executor/layers/quantization/__init__|model_executor/model_loader/__init__|(?:entrypoints/openai/)?tool_parsers/__init__"
        r"|(?:entrypoints/openai/)?reasoning/__init__)\.py$"
    ),
    "sglang": re.compile(
        r"sglang/srt/(?:server_args|arg_groups/.*|environ|speculative/spec_info|function_call/parser_names"
        r"|function_call/function_call_parser|parser/reasoning_parser(?:_names)?)\.py$"
    ),
}  # fmt: skip
# classes whose fields are the keys of a JSON option
CONTAINERS = {
    "speculative_config": "SpeculativeConfig",
    "compilation_config": "CompilationConfig",
    "compilation_config.pass_config": "PassConfig",
    "attention_config": "AttentionConfig",
    "kernel_config": "KernelConfig",
    "structured_outputs_config": "StructuredOutputsConfig",
    "guided_decoding_config": "DecodingConfig",
    "eplb_config": "EPLBConfig",
}
# words that are the keys of a table elsewhere
REGISTRIES = {
    ("vllm", "--tool-call-parser"): ("_TOOL_PARSERS_TO_REGISTER",),
    ("vllm", "--reasoning-parser"): ("_REASONING_PARSERS_TO_REGISTER",),
    ("sglang", "--tool-call-parser"): ("TOOL_CALL_PARSER_NAMES", "ToolCallParserEnum"),
    ("sglang", "--reasoning-parser"): ("REASONING_PARSER_NAMES", "DetectorMap"),
}
_WHEEL = re.compile(r"(?P<engine>vllm|sglang)(?:_cpu)?-(?P<version>\d+(?:\.\d+)+)")
_VARIABLE = re.compile(r"[\"'](?P<name>[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+)[\"']")


@dataclass(frozen=True)
class Option:
    """One flag of an engine."""

    flag: str
    aliases: tuple[str, ...] = ()
    takes: str = "value"  # switch, toggle (--x and --no-x), value, several, ignored
    choices: tuple[str, ...] | None = None
    default: Any = UNKNOWN
    number: type | None = None


@dataclass(frozen=True)
class Key:
    """One key of a JSON option."""

    choices: tuple[str, ...] | None = None
    default: Any = UNKNOWN


@dataclass(frozen=True)
class Sources:
    """One release of one engine."""

    engine: str
    version: str
    options: Mapping[str, Option]  # by every name it has
    keys: Mapping[str, Key]
    variables: Mapping[str, Any]  # name -> default
    mentioned: frozenset[str] = field(default_factory=frozenset)  # every variable any source file names


def read(wheel: Path) -> Sources:
    """The command line of the release in this wheel."""
    known = _WHEEL.match(wheel.name)
    if known is None:
        raise ValueError(f"{wheel.name} is no wheel of vLLM or SGLang")
    engine, modules, mentioned = known["engine"], {}, set()
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            if not name.endswith(".py") or not name.startswith(engine + "/"):
                continue
            text = packed.read(name).decode("utf-8", errors="replace")
            mentioned.update(m["name"] for m in _VARIABLE.finditer(text))
            if READ[engine].match(name):
                modules[name] = ast.parse(text)
    code = _Code(modules)
    options = [_registered(code, engine, o) for o in (_vllm(code) if engine == "vllm" else _sglang(code))]
    return Sources(
        engine=engine,
        version=known["version"],
        options={name: o for o in options for name in (o.flag, *o.aliases)},
        keys=dict(_keys(code)) if engine == "vllm" else {},
        variables=_variables(engine, modules, code),
        mentioned=frozenset(mentioned),
    )


# -- just enough of Python ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Field:
    annotation: ast.expr
    default: ast.expr | None
    owner: str


class _Code:
    """Names, classes and their fields over all modules that were read."""

    def __init__(self, modules: Mapping[str, ast.Module]) -> None:
        self.modules = modules
        self.names: dict[str, ast.expr] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        local: dict[str, ast.expr] = {}
        for tree in modules.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)
                elif isinstance(node, ast.stmt):
                    target, value = _assigned(node)
                    if target and value is not None:
                        (self.names if node in tree.body else local).setdefault(target, value)
        self.names = {**local, **self.names}

    def fields(self, name: str, depth: int = 0) -> dict[str, _Field]:
        """Fields of a class and of the classes it is made from."""
        node = self.classes.get(name)
        if node is None or depth > 8:
            return {}
        found: dict[str, _Field] = {}
        for base in node.bases:
            if isinstance(base, ast.Name):
                found.update(self.fields(base.id, depth + 1))
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                found[item.target.id] = _Field(item.annotation, item.value, name)
        return found

    def value(self, node: ast.expr | None, owner: str = "", depth: int = 0) -> Any:
        """What an expression is, when reading it is enough to know."""
        if node is None or depth > 12:
            return UNKNOWN
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError):
            pass
        if isinstance(node, ast.Name):
            return self._named(node.id, owner, depth)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._attribute(node.value.id, node.attr, depth)
        if isinstance(node, ast.Call):
            return self._call(node, owner, depth)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return self._items(node.elts, owner, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.value(node.left, owner, depth + 1), self.value(node.right, owner, depth + 1)
            both = isinstance(left, list | tuple) and isinstance(right, list | tuple)
            return [*left, *right] if both else UNKNOWN
        return UNKNOWN

    def _named(self, name: str, owner: str, depth: int) -> Any:
        own = self.classes.get(owner)
        for item in own.body if own else ():
            target, value = _assigned(item)
            if target == name:
                return self.value(value, owner, depth + 1)
        return self.value(self.names.get(name), owner, depth + 1)

    def _attribute(self, owner: str, name: str, depth: int) -> Any:
        if name == "value" or owner not in self.classes:
            return UNKNOWN
        found = self.fields(owner).get(name)
        if found is not None:
            return self.value(found.default, found.owner, depth + 1)
        return self._named(name, owner, depth)

    def _call(self, node: ast.Call, owner: str, depth: int) -> Any:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = {k.arg: k.value for k in node.keywords}
        if called in ("Field", "field"):
            if "default" in given or node.args:
                return self.value(given.get("default") or node.args[0], owner, depth + 1)
            made = given.get("default_factory")
            empty = {"list": [], "dict": {}, "set": [], "tuple": []}
            return empty.get(getattr(made, "id", ""), UNKNOWN)
        if called == "get_field" and len(node.args) == 2 and isinstance(node.args[0], ast.Name):
            name = self.value(node.args[1])
            return self._attribute(node.args[0].id, name, depth + 1) if isinstance(name, str) else UNKNOWN
        if called in ("list", "sorted", "tuple", "set", "frozenset") and len(node.args) == 1:
            inner = self.value(node.args[0], owner, depth + 1)
            return list(inner) if isinstance(inner, list | tuple | set | frozenset) else UNKNOWN
        if called == "_declared_default" and node.args:  # SGLang: the default of the field of this name
            name = self.value(node.args[0])
            declared = (self.fields(c).get(name) for c in self.classes if isinstance(name, str))
            f = next((d for d in declared if d is not None), None)
            return self.value(f.default, f.owner, depth + 1) if f else UNKNOWN
        if called == "get_args" and node.args:
            words = self.words(node.args[0])
            return list(words) if words else UNKNOWN
        return UNKNOWN

    def _items(self, nodes: Iterable[ast.expr], owner: str, depth: int) -> Any:
        found: list[Any] = []
        for n in nodes:
            inner = self.value(n.value if isinstance(n, ast.Starred) else n, owner, depth + 1)
            if inner is UNKNOWN:
                return UNKNOWN
            found += inner if isinstance(n, ast.Starred) else [inner]
        return found

    def words(self, annotation: ast.expr | None, depth: int = 0) -> tuple[str, ...] | None:
        """The words a Literal or an Enum names, also where any other text goes as well; None when there are none."""
        if annotation is None or depth > 12:
            return None
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                return self.words(ast.parse(annotation.value, mode="eval").body, depth + 1)
            except SyntaxError:
                return None
        if isinstance(annotation, ast.BinOp):
            return self._either((annotation.left, annotation.right), depth)
        if isinstance(annotation, ast.Subscript):
            return self._subscript(annotation, depth)
        if isinstance(annotation, ast.Attribute):  # me_quant.QuantizationMethods
            return self.words(ast.Name(annotation.attr), depth + 1)
        if isinstance(annotation, ast.Name):
            if annotation.id in self.classes:
                return self._enum(annotation.id)
            return self.words(self.names.get(annotation.id), depth + 1)
        return None

    def _subscript(self, node: ast.Subscript, depth: int) -> tuple[str, ...] | None:
        name = getattr(node.value, "id", getattr(node.value, "attr", ""))
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Literal":
            found: list[str] = []
            for item in inside:
                if isinstance(item, ast.Constant):
                    found.append(str(item.value))
                else:
                    found += self.words(item, depth + 1) or ()
            return tuple(found)
        if name in ("Optional", "Union"):
            return self._either(inside, depth)
        if name in ("A", "Annotated", "SkipValidation"):  # A: SGLang's Annotated
            return self.words(inside[0], depth + 1)
        return None

    def _either(self, nodes: Iterable[ast.expr], depth: int) -> tuple[str, ...] | None:
        found: list[str] = []
        for n in nodes:
            found += self.words(n, depth + 1) or ()
        return tuple(found) or None

    def _enum(self, name: str) -> tuple[str, ...] | None:
        bases = {getattr(b, "id", getattr(b, "attr", "")) for b in self.classes[name].bases}
        if not any("Enum" in b for b in bases):
            return None
        targets = (_assigned(item)[0] for item in self.classes[name].body)
        return tuple(t for t in targets if t and not t.startswith("_"))


def _assigned(node: ast.stmt) -> tuple[str | None, ast.expr | None]:
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id, node.value
    return None, None


def _calls(tree: ast.AST) -> Iterator[tuple[tuple[str, ...], ast.Call]]:
    """Every `add_argument` with the names it gives."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            names = tuple(a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
            if names and names[0].startswith("-"):
                yield names, node


def _registered(code: _Code, engine: str, option: Option) -> Option:
    if option.flag == "--speculative-algorithm" and option.choices is None:
        built_in = code.words(ast.Name("SpeculativeAlgorithm")) or ()
        return replace(option, choices=(*(w for w in built_in if w != "NONE"), "NEXTN"))  # NEXTN is resolved by name
    for name in REGISTRIES.get((engine, option.flag), ()):
        node = code.names.get(name)
        if node is None:
            owner = next((c for c in code.classes if name in code.fields(c)), "")
            node = code.fields(owner)[name].default if owner else None
        words = [code.value(k) for k in node.keys if k] if isinstance(node, ast.Dict) else code.value(node)
        if isinstance(words, list | tuple) and option.choices is None:
            return replace(option, choices=tuple(str(w) for w in words))
    return option


# -- vLLM -------------------------------------------------------------------------------------------------------------


def _vllm(code: _Code) -> Iterator[Option]:
    for path, tree in code.modules.items():
        if path.startswith("vllm/config/"):
            continue
        # model_kwargs = get_kwargs(ModelConfig)
        owners = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                called = getattr(node.value.func, "id", "")
                if called == "get_kwargs" and node.value.args and isinstance(node.value.args[0], ast.Name):
                    owners[getattr(node.targets[0], "id", "")] = node.value.args[0].id
        for names, call in _calls(tree):
            yield _vllm_option(code, names, call, owners)
    for name, f in code.fields("FrontendArgs").items():
        yield _declared(code, "--" + name.replace("_", "-"), (), f)


def _vllm_option(code: _Code, names: tuple[str, ...], call: ast.Call, owners: Mapping[str, str]) -> Option:
    for k in call.keywords:
        if k.arg is not None:
            continue
        # **model_kwargs["dtype"], **{**scheduler_kwargs["max_num_seqs"], "default": None}, **moe_backend_kwargs
        held = code.names.get(k.value.id, k.value) if isinstance(k.value, ast.Name) else k.value
        for node in ast.walk(held):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                owner, name = owners.get(node.value.id, ""), code.value(node.slice)
                f = code.fields(owner).get(name if isinstance(name, str) else "")
                if f is not None:
                    return _declared(code, names[0], names[1:], f)
    return _plain(code, names, call)


def _declared(code: _Code, flag: str, aliases: tuple[str, ...], f: _Field) -> Option:
    text = ast.unparse(f.annotation)
    words = code.words(f.annotation)
    listed = bool(re.search(r"\b(?:list|List|tuple|set)\[", text))
    takes = "toggle" if re.search(r"\bbool\b", text) and "str" not in text else "several" if listed else "value"
    return Option(flag, aliases, takes, None if listed else words, code.value(f.default, f.owner), _number(text))


def _number(annotation: str) -> type | None:
    if re.search(r"\bstr\b|Literal|list|List|dict", annotation):
        return None
    return float if "float" in annotation else int if re.search(r"\bint\b", annotation) else None


def _keys(code: _Code) -> Iterator[tuple[str, Key]]:
    for container, owner in CONTAINERS.items():
        for name, f in code.fields(owner).items():
            yield f"{container}.{name}", Key(code.words(f.annotation), code.value(f.default, f.owner))


# -- SGLang -----------------------------------------------------------------------------------------------------------


def _sglang(code: _Code) -> Iterator[Option]:
    for tree in code.modules.values():
        for names, call in _calls(tree):
            yield _plain(code, names, call)
    for path, tree in code.modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and ("/arg_groups/fields/" in path or node.name == "ServerArgs"):
                for name, f in code.fields(node.name).items():
                    option = _annotated(code, name, f)
                    if option is not None:
                        yield option


def _annotated(code: _Code, name: str, f: _Field) -> Option | None:
    """A field declared as `A[type, "help"]` or `A[type, Arg(…)]`."""
    a = f.annotation
    if not (isinstance(a, ast.Subscript) and getattr(a.value, "id", "") == "A" and isinstance(a.slice, ast.Tuple)):
        return None
    declared, *rest = a.slice.elts
    arg = next((x for x in rest if isinstance(x, ast.Call) and getattr(x.func, "id", "") == "Arg"), None)
    given = {k.arg: k.value for k in arg.keywords} if arg else {}
    if code.value(given.get("no_cli")) is True:
        return None
    flag = code.value(given.get("cli_name")) if "cli_name" in given else "--" + name.replace("_", "-")
    aliases = code.value(given.get("aliases")) if "aliases" in given else []
    words = code.value(given.get("choices")) if "choices" in given else code.words(declared)
    text = ast.unparse(declared)
    switch = text in ("bool", "Optional[bool]") and "action" not in given
    several = ("List[" in text or "nargs" in given or "action" in given) and "type_parser" not in given
    takes = "switch" if switch else "several" if several else "value"
    number = None if "type_parser" in given else _number(text)
    return Option(flag, tuple(aliases), takes, _texts(words), code.value(f.default, f.owner), number)


def _plain(code: _Code, names: tuple[str, ...], call: ast.Call) -> Option:
    """An `add_argument` that says everything itself."""
    given = {k.arg: k.value for k in call.keywords if k.arg}
    action = given.get("action")
    action_text = ast.unparse(action).strip("'\"") if action is not None else ""
    if action_text in ("store_true", "store_false"):
        takes = "switch"
    elif "BooleanOptional" in action_text:
        takes = "toggle"
    elif action_text == "DeprecatedAction":
        takes = "ignored"
    elif "Deprecated" in action_text and not {"choices", "type", "nargs"} & set(given):
        takes = "switch"
    else:
        takes = "several" if "nargs" in given else "value"
    default = code.value(given["default"]) if "default" in given else (False if takes == "switch" else None)
    number = {"int": int, "float": float}.get(getattr(given.get("type"), "id", ""))
    words = _texts(code.value(given.get("choices"))) if "choices" in given else None
    return Option(names[0], names[1:], takes, words, default, number)


def _texts(words: Any) -> tuple[str, ...] | None:
    return tuple(str(w) for w in words) if isinstance(words, list | tuple | set) else None


# -- environment ------------------------------------------------------------------------------------------------------


def _variables(engine: str, modules: Mapping[str, ast.Module], code: _Code) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, tree in modules.items():
        if engine == "vllm" and "envs" not in path:
            continue
        for node in ast.walk(tree):
            if engine == "vllm" and isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                if name.isupper():
                    found[name] = _default(code, node.value)
            elif engine == "vllm" and isinstance(node, ast.Dict):
                for k in node.keys:
                    if isinstance(k, ast.Constant) and isinstance(k.value, str) and k.value.isupper():
                        found.setdefault(k.value, UNKNOWN)
            elif engine == "sglang" and path.endswith("/environ.py") and isinstance(node, ast.Assign):
                target, value = _assigned(node)
                # SGLANG_LOG_GC = EnvBool(False)
                if target and target.isupper() and isinstance(value, ast.Call) and value.args:
                    found[target] = _default(code, value.args[0])
    return found


def _default(code: _Code, node: ast.expr | None) -> Any:
    known = code.value(node)
    return ast.unparse(node) if known is UNKNOWN and node is not None else known


# -- a parser made of what was read -----------------------------------------------------------------------------------


def parser_of(sources: Sources) -> argparse.ArgumentParser:
    """An argparse parser that accepts what the engine's own would."""
    parser = argparse.ArgumentParser(prog=sources.engine, allow_abbrev=False, exit_on_error=False)
    taken: set[str] = set()
    for option in {o.flag: o for o in sources.options.values()}.values():
        names = [n for n in (option.flag, *option.aliases) if n not in taken and n not in ("-h", "--help")]
        if not names:
            continue
        taken.update(names)
        dest = option.flag.lstrip("-").replace("-", "_")
        if option.takes == "switch":
            parser.add_argument(*names, dest=dest, action="store_true")
        elif option.takes == "toggle":
            parser.add_argument(*names, dest=dest, action=argparse.BooleanOptionalAction)
            taken.update("--no-" + n[2:] for n in names if n.startswith("--"))
        else:
            several = {"nargs": "*"} if option.takes in ("several", "ignored") else {}
            parser.add_argument(*names, dest=dest, choices=option.choices, type=option.number or str, **several)
    return parser
