#!/usr/bin/env bash
# Checks and measures forebay on this machine's GPU: report/gpu.json and report/gpu.html, or in the folder that OUT names. Needs
# nothing from a registry: a Python with torch (PYTHON names one; else the machine's python3, or what `make run` has made) and the
# extension, built beforehand with `make build`, or a wheel (WHEEL names it), which needs no libhwloc here. `--help` says what else.
begun=$(date +%s)
# What names files is meant from where this was called.
called_from=$PWD
. "$(dirname "$0")/lib.sh"
cd "$called_from"
# The minutes count from here, and a panic says where it was.
export GPU_REPORT_BEGUN=$begun RUST_BACKTRACE=${RUST_BACKTRACE:-1}

# Whether the Python $1 can import $2; else `said` is what it said last.
imports() {
    local all code=0
    all=$("$1" -c "import $2" 2>&1) || code=$?
    said=$(printf '%s\n' "${all:-it ended with status $code}" | tail -n 1)
    return "$code"
}
python=${PYTHON:-python3}
needed="numpy, PIL, torch"
# What `make run` and `make test` have made.
[ -n "${PYTHON:-}" ] || imports "$python" "$needed" || for made in "${XDG_CACHE_HOME:-$HOME/.cache}"/forebay/venv-*/bin/python; do
    ! imports "$made" "$needed" || python=$made
done
command -v "$python" >/dev/null || die "there is no program $python: name a Python, PYTHON=/path/to/python make gpu-report"
package=$root/python/py_src
if [ -n "${WHEEL:-}" ]; then
    [ -f "$WHEEL" ] || die "there is no file $WHEEL: make a wheel (\`make wheel\`) and name it, WHEEL=FILE make gpu-report"
    package=$(mktemp -d)
    trap 'rm -rf "$package"' EXIT
    "$python" -m zipfile -e "$WHEEL" "$package" || die "$WHEEL cannot be unpacked: make it again (\`make wheel\`)"
fi
export PYTHONPATH=$package:$root/python/scripts${PYTHONPATH:+:$PYTHONPATH}
imports "$python" "$needed" ||
    die "$python has no numpy, Pillow or torch that can be used ($said): name one that has, PYTHON=/path/to/python make gpu-report"
imports "$python" forebay ||
    die "the package cannot be used here ($said): run \`make build\`, or copy what it made from elsewhere; where libhwloc is" \
        "missing, make a wheel elsewhere (\`make wheel\`) and name it, WHEEL=FILE make gpu-report"
# A shell that waits for a program in its foreground is ended without it, and what runs on the device would go on. So the program
# runs beside it, and is told; Ctrl-C reaches both, and the shell waits.
"$python" -m gpu_report "$@" &
program=$!
trap 'kill -TERM "$program" 2>/dev/null || true' TERM HUP
trap : INT
code=0
wait "$program" || code=$?
# A signal ends the first wait and not the program.
[ "$code" -le 128 ] || { code=0; wait "$program" || code=$?; }
exit "$code"
