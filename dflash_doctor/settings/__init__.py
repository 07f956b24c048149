"""Settings as concepts: one neutral name for each tuning knob, whatever engine, flag, variable or log line spells it.

The rows are data/settings.yaml. Parsers hand in what they read and get Settings back, so that all of them agree:

    from_args("vllm", {"tensor_parallel_size": 2}, "0.20.1", "effective")     a dict of argument or configuration names
    from_flags("sglang", ["--tp", "2"], None)                                 the words of a command line
    from_environ("vllm", {"NCCL_P2P_DISABLE": "1"}, None)                     an environment
    defaults("vllm", "0.20.1")                                                what holds when nobody says anything

`alike` says whether two values mean the same, `speed_weight` how likely a change of a setting moves the speed. Knobs
that no row knows are kept as `other.<name>`, variables as `env.NAME`.
"""

from __future__ import annotations

from dflash_doctor.settings.config_text import read_config
from dflash_doctor.settings.environment import from_environ, tunes
from dflash_doctor.settings.flags import from_flags
from dflash_doctor.settings.rows import SETTINGS, SettingRow, Spelling, speed_weight
from dflash_doctor.settings.said import constant_defaults, defaults, flatten, from_args, told
from dflash_doctor.settings.same import alike
from dflash_doctor.settings.values import HIDDEN, secret

__all__ = [
    "HIDDEN",
    "SETTINGS",
    "SettingRow",
    "Spelling",
    "alike",
    "constant_defaults",
    "defaults",
    "flatten",
    "from_args",
    "from_environ",
    "from_flags",
    "read_config",
    "secret",
    "speed_weight",
    "told",
    "tunes",
]
