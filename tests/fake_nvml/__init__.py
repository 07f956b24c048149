"""A host with GPUs that are not there: NVML's library and nvidia-smi, both answering from one state file."""

from fake_nvml.host import MadeUp, compiler
from fake_nvml.nvidia_smi import since
from fake_nvml.states import NAMES, lay, state

__all__ = ["NAMES", "MadeUp", "compiler", "lay", "since", "state"]
