#!/usr/bin/env bash
# Reads an epoch from each store that has an emulator, and writes a data set to it: Azurite, an emulator of Google Cloud
# Storage, moto for S3. Each must equal the folder's. The emulators are installed into a folder under ~/.cache/forebay, once.
. "$(dirname "$0")/lib.sh"
command -v npm >/dev/null || die "npm is missing: Azurite is a Node program (Debian and Ubuntu: npm)"

azurite=${XDG_CACHE_HOME:-$HOME/.cache}/forebay/azurite-3.35.0
if [ ! -e "$azurite/complete" ]; then
    say "installing Azurite into $azurite (190 MB)"
    mkdir -p "$azurite"
    (cd "$azurite" && npm install --no-audit --no-fund --silent azurite@3.35.0)
    touch "$azurite/complete"
fi
environment_over_shared stores 'gcp-storage-emulator==2026.7.19' 'moto[server]>=5,<6'
python/scripts/extension.sh dev
AZURITE=$azurite/node_modules/.bin/azurite-blob PYTHONPATH=$root/python/py_src \
    exec "$venv/bin/python" python/scripts/stores.py
