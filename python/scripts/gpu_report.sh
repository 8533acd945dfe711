#!/usr/bin/env bash
# Checks and measures forebay on this machine's GPU: report/gpu.json and report/gpu.html. Needs nothing from a registry: a Python with
# torch (PYTHON names one; else the machine's python3, or what `make run` has made) and the extension, built beforehand with `make build`, or a wheel (WHEEL names
# it), which needs no libhwloc here. `--help` says what else.
. "$(dirname "$0")/lib.sh"
has_torch() { "$1" -c "import numpy, PIL, torch" 2>/dev/null; }
python=${PYTHON:-python3}
# What `make run` and `make test` have made.
[ -n "${PYTHON:-}" ] || has_torch "$python" || for made in "${XDG_CACHE_HOME:-$HOME/.cache}"/forebay/venv-*/bin/python; do
    has_torch "$made" && python=$made
done
package=$root/python/py_src
if [ -n "${WHEEL:-}" ]; then
    package=$(mktemp -d)
    trap 'rm -rf "$package"' EXIT
    "$python" -m zipfile -e "$WHEEL" "$package"
fi
export PYTHONPATH=$package:$root/python/scripts${PYTHONPATH:+:$PYTHONPATH}
has_torch "$python" || die "$python has no numpy, Pillow or torch: name one that has, PYTHON=/path/to/python make gpu-report"
"$python" -c "import forebay" || die "the package cannot be used here: run \`make build\`, or copy what it made from elsewhere; where libhwloc is missing, make a wheel elsewhere (\`make wheel\`) and name it, WHEEL=FILE make gpu-report"
# A shell that waits for a program in its foreground is ended without it, and what runs on the device would go on. So the program runs
# beside it, and is told; Ctrl-C reaches both, and the shell waits.
"$python" -m gpu_report "$@" &
program=$!
trap 'kill -TERM "$program" 2>/dev/null || true' TERM HUP
trap : INT
code=0
wait "$program" || code=$?
# A signal ends the first wait and not the program.
[ "$code" -le 128 ] || { code=0; wait "$program" || code=$?; }
exit "$code"
