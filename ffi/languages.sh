#!/usr/bin/env bash
# Prints a folder with the packages that the examples in scripting languages need, made on first use and shared by all
# checkouts: a Python with numpy and LuaJIT (`python/bin/python`), and koffi for Node (`node_modules`) where npm is
# installed.
. "$(dirname "$0")/../python/scripts/lib.sh"

packages=(numpy==2.1.3 lupa==2.8)
modules=(koffi@3.3.4)
python=$(find_python)
tools="$("$python" -c 'import sys; print(sys.version, sys.prefix)') $(command -v npm || true)"
hash=$(printf '%s\n' "${packages[@]}" "${modules[@]}" "$tools" | sha256sum | cut -c1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/forebay/languages-$hash
if [ ! -e "$folder/complete" ]; then
    mkdir -p "$folder"
    # Tests start at once: the first one makes the folder, and the rest wait for it.
    exec 9>"$folder/lock"
    flock 9
    if [ ! -e "$folder/complete" ]; then
        "$python" -m venv "$folder/python" >&2
        "$folder/python/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}" >&2
        # Without npm's registry the remaining languages still work; the next call tries again.
        if ! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --prefix "$folder" "${modules[@]}" >&2; then
            touch "$folder/complete"
        fi
    fi
fi
printf '%s\n' "$folder"
