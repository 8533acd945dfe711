#!/usr/bin/env bash
# Checks and measures forebay on this machine's GPU; writes gpu.json and gpu.html to report/ or the folder OUT. Needs
# nothing from a registry: a Python with torch (PYTHON; otherwise python3, or the environment of `make run`) and the
# extension, built beforehand with `make build`, or a wheel (WHEEL), which needs no libhwloc. See also `--help`.
begun=$(date +%s)
# Paths are relative to the caller's folder.
called_from=$PWD
. "$(dirname "$0")/lib.sh"
cd "$called_from"
# The minutes count from here; panics have backtraces.
export GPU_REPORT_BEGUN=$begun RUST_BACKTRACE=${RUST_BACKTRACE:-1}

# Returns true if the Python $1 can import $2. Otherwise `reason` is the last line of its error.
imports() {
    local all code=0
    all=$("$1" -c "import $2" 2>&1) || code=$?
    reason=$(printf '%s\n' "${all:-it ended with status $code}" | tail -n 1)
    return "$code"
}
python=${PYTHON:-python3}
needed="numpy, PIL, torch"
# Environments of `make run` and `make test`.
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
    die "$python has no numpy, Pillow or torch that can be used ($reason): name one that has, PYTHON=/path/to/python make gpu-report"
imports "$python" forebay ||
    die "the package cannot be used here ($reason): run \`make build\`, or copy its result from a different machine;" \
        "where libhwloc is missing, make a wheel elsewhere (\`make wheel\`) and name it, WHEEL=FILE make gpu-report"
# A signal ends a shell that waits for a foreground program but not the program, which would continue on the device. So
# the program runs in the background and the shell forwards signals; Ctrl-C reaches both, and the shell waits.
"$python" -m gpu_report "$@" &
program=$!
trap 'kill -TERM "$program" 2>/dev/null || true' TERM HUP
trap : INT
code=0
wait "$program" || code=$?
# A signal ends the first wait and not the program.
[ "$code" -le 128 ] || { code=0; wait "$program" || code=$?; }
exit "$code"
