#!/usr/bin/env bash
# The demonstration: installs missing packages, builds, and runs python/examples/demo with this script's arguments.
. "$(dirname "$0")/lib.sh"
python/scripts/system.sh
python=$(python/scripts/venv.sh)
say "building forebay (release; some 13 minutes of CPU time and 1 GB of disk the first time, seconds after that)"
python/scripts/extension.sh release -p forebay-tests --bin object-server
export PYTHONPATH=$root/python/py_src
exec "$python" python/examples/demo --server "$target/release/object-server" "$@"
