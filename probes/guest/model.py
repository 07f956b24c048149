"""What the engine was built from: model and drafter config.json, the packages of its environment."""

import json
import os
import re

from guest import engines
from guest.ask import Failed

SMALL = 1 << 20
SITE = re.compile(r"(?P<folder>/\S*/(?:site|dist)-packages)/")


def target_path(engine):
    """The model as named on the command line: a path or a hub id."""
    named = engines.flag(engine.argv, "--model", "--model-path", "--model-tag")
    if named:
        return named
    # vllm serve MODEL --flags
    words = engine.argv[engine.argv.index("serve") + 1 :] if "serve" in engine.argv else []
    return words[0] if words and not words[0].startswith("-") else None


def draft_path(engine):
    """The drafter as named on the command line, or None."""
    named = engines.flag(engine.argv, "--speculative-draft-model-path", "--speculative-model")
    if named:
        return named
    dotted = engines.flag(engine.argv, "--speculative-config.model")
    if dotted:
        return dotted
    try:
        config = json.loads(engines.flag(engine.argv, "--speculative-config") or "{}")
    except ValueError:
        return None
    named = config.get("model") if isinstance(config, dict) else None
    return named if isinstance(named, str) else None


def config(ground, engine, named, environ):
    """Text of the config.json of a model named by path or by hub id; Failed when it cannot be found."""
    tried = []
    for folder in [named] + _cached(ground, engine, named, environ):
        path = engine.inside(folder + "/config.json")
        if ground.there(path) or os.path.exists(ground.path(path)):
            return ground.read(path, SMALL)
        tried.append(folder)
    raise Failed("no config.json in %s" % " or ".join(tried))


def _cached(ground, engine, named, environ):
    """Snapshot folders of a hub id in the cache of the user who runs the engine."""
    if named.startswith(("/", ".")) or named.count("/") != 1:
        return []
    env = dict(environ)
    home = env.get("HF_HOME") or (env.get("XDG_CACHE_HOME") or env.get("HOME", "/root") + "/.cache") + "/huggingface"
    hub = env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE") or home + "/hub"
    model = "%s/models--%s" % (hub, named.replace("/", "--"))
    pinned = ground.text(engine.inside(model + "/refs/main"))
    names = [pinned] if pinned else ground.names(engine.inside(model + "/snapshots"))
    return ["%s/snapshots/%s" % (model, name) for name in names]


def site_packages(ground, engine, environ):
    """Folders with the packages of the engine's Python, best guess first."""
    found = []
    # what it has loaded says it surest
    for process in [engine.head] + engine.family[:1]:
        for match in SITE.finditer(ground.text("/proc/%d/maps" % process.pid, limit=8 << 20)):
            found.append(match.group("folder"))
    words = [w for w in engine.argv[:2] if w.startswith("/")]
    prefixes = [w.rsplit("/bin/", 1)[0] for w in words if "/bin/" in w]
    exe = ground.link("/proc/%d/exe" % engine.pid) or ""
    env = dict(environ)
    prefixes += [p for p in (env.get("VIRTUAL_ENV"), env.get("CONDA_PREFIX"), exe.rpartition("/bin/")[0]) if p]
    for prefix in prefixes + ["/usr/local", "/usr"]:
        for name in ground.names(engine.inside(prefix + "/lib")):
            if re.match(r"python3[\d.]*\Z", name):
                found += ["%s/lib/%s/%s" % (prefix, name, kind) for kind in ("site-packages", "dist-packages")]
    return list(dict.fromkeys(found))


def packages(ground, engine, environ):
    """`name==version` lines of the engine's environment, from the names of its *.dist-info folders."""
    looked = site_packages(ground, engine, environ)
    for folder in looked:
        names = ground.names(engine.inside(folder))
        if not any(re.match(r"(vllm|sglang|torch)\b", n) for n in names):
            continue
        found = {}
        for name in names:
            # flash_attn_4-4.0.0b12.dist-info   vllm-0.20.1+cu129.dist-info   six-1.16.0.egg-info
            match = re.match(r"(?P<name>.+?)-(?P<version>\d[^-]*)(?:-.*)?\.(?:dist|egg)-info\Z", name)
            if match:
                found[match.group("name").replace("_", "-").lower()] = match.group("version")
        return "".join("%s==%s\n" % pair for pair in sorted(found.items()))
    raise Failed("neither vllm, sglang nor torch in %s" % (", ".join(looked) or "any folder we could see"))
