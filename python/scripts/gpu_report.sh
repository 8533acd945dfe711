#!/usr/bin/env bash
# Checks and measures forebay on this machine's GPU: report/gpu.json and report/gpu.html. Needs nothing from a registry: a Python with
# torch (PYTHON names one; else the machine's python3) and the extension, built beforehand with `make build`.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-python3}
"$python" -c "import numpy, PIL, torch" || die "$python has no numpy, Pillow or torch: name one that has, PYTHON=/path/to/python make gpu-report"
compgen -G "$root/python/py_src/forebay/_forebay*.so" >/dev/null || die "the extension is missing: run \`make build\` here, or copy it from where it was built"
PYTHONPATH=$root/python/py_src:$root/python/scripts exec "$python" -m gpu_report "$@"
