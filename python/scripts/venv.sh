#!/usr/bin/env bash
# Prints the Python of the environment that holds python/requirements.txt, made on first use and shared by all
# checkouts of this machine. FOREBAY_VENV names a different folder.
. "$(dirname "$0")/lib.sh"

requirements=$root/python/requirements.txt
python=$(find_python)
if [ -n "${FOREBAY_VENV:-}" ]; then
    venv=$FOREBAY_VENV
else
    # A different Python or list of packages has a different environment, so that switching branches breaks nothing.
    version=$("$python" -c 'import sys; print(sys.version, sys.prefix)')
    hash=$( { cat "$requirements"; echo "$version"; } | sha256sum | cut -c1-12)
    venv=${XDG_CACHE_HOME:-$HOME/.cache}/forebay/venv-$hash
fi

complete() { [ -x "$venv/bin/python" ] && "$venv/bin/python" "$root/python/scripts/installed.py" "$requirements"; }

if ! complete >/dev/null 2>&1; then
    mkdir -p "$(dirname "$venv")"
    # Two checkouts may start at once: the second waits and uses the result.
    exec 9>"$venv.lock"
    flock 9
    if ! complete >/dev/null 2>&1; then
        say "making the Python environment $venv (torch and the peers: about 5 GB, a few minutes, once)" >&2
        [ -x "$venv/bin/python" ] || "$python" -m venv "$venv" >&2
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements" >&2
        complete >&2 || die "the environment $venv does not hold all packages of $requirements; remove it and run this again"
    fi
fi
printf '%s\n' "$venv/bin/python"
