#!/usr/bin/env bash
# The demonstration: installs what is missing, then hands over to python/examples/demo (whose arguments it passes on).
. "$(dirname "$0")/lib.sh"
python/scripts/system.sh
python=$(python/scripts/venv.sh)
say "building forebay (release; some 20 minutes of CPU time and 2 GB of disk the first time, seconds after that)"
python/scripts/extension.sh release
cargo build --locked --release -p forebay-bench
export PYTHONPATH=$root/python/py_src
exec "$python" python/examples/demo --server "$target/release/forebay-bench" "$@"
