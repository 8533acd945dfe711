#!/usr/bin/env bash
# Reads an epoch from each store that has a server to run here, and writes a data set to it: Garage for S3, which checks
# signatures as AWS does, Azurite, an emulator of Google Cloud Storage, moto for S3 as well. Each must equal the folder's. The
# servers are installed into folders under ~/.cache/forebay, once: Garage takes 4 to 12 minutes to compile.
. "$(dirname "$0")/lib.sh"
command -v npm >/dev/null || die "npm is missing: Azurite is a Node program (Debian and Ubuntu: npm)"

azurite=${XDG_CACHE_HOME:-$HOME/.cache}/forebay/azurite-3.35.0
if [ ! -e "$azurite/complete" ]; then
    say "installing Azurite into $azurite (190 MB)"
    mkdir -p "$azurite"
    (cd "$azurite" && npm install --no-audit --no-fund --silent azurite@3.35.0)
    touch "$azurite/complete"
fi
garage=${XDG_CACHE_HOME:-$HOME/.cache}/forebay/garage-2.5.0
if [ ! -x "$garage/bin/garage" ]; then
    say "compiling Garage into $garage"
    # Its own settings: this checkout's are for Python's extension.
    (cd / && CARGO_TARGET_DIR=$garage/build cargo install --quiet --locked --debug --root "$garage" \
        --no-default-features --features bundled-libs,sqlite --version 2.5.0 garage)
    rm -rf "$garage/build"
fi
environment_over_shared stores 'gcp-storage-emulator==2026.7.19' 'moto[server]>=5,<6'
python/scripts/extension.sh dev
GARAGE=$garage/bin/garage AZURITE=$azurite/node_modules/.bin/azurite-blob PYTHONPATH=$root/python/py_src \
    exec "$venv/bin/python" python/scripts/stores.py
