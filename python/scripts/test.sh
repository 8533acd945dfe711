#!/usr/bin/env bash
# Runs all checks: the gate, the Rust suites (including the C one), the Python suite. Uses the dev profile only.
. "$(dirname "$0")/lib.sh"
start=$SECONDS
python/scripts/system.sh
# Incremental compilation costs a quarter more CPU time in the first build. A checkout that has it keeps it.
[ -d "$target/debug/incremental" ] || export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}

# On a fresh machine the environments are downloaded while the engine compiles.
logs=$(mktemp -d)
trap 'kill $venv_job $frameworks_job 2>/dev/null || true; rm -rf "$logs"' EXIT
python/scripts/venv.sh >"$logs/python" 2>"$logs/venv" &
venv_job=$!
python/scripts/frameworks.sh --prepare >"$logs/frameworks" 2>&1 &
frameworks_job=$!

say "gate: format, lints, docs, layering, drift"
cargo gate

say "Rust tests"
if command -v cargo-nextest >/dev/null; then
    cargo nextest run --locked --workspace --no-fail-fast --status-level fail --final-status-level fail
    # nextest does not run the examples in the documentation.
    cargo test --locked --workspace --doc --quiet
else
    cargo test --locked --workspace --quiet
fi

say "models: locks and waits in many thread orders, by shuttle"
cargo test --locked -p forebay-loader --features shuttle --lib --quiet models::

say "Python tests, and those of the frameworks at the same time"
wait "$venv_job" || { cat "$logs/venv" >&2; die "the Python environment could not be made"; }
python=$(cat "$logs/python")
python/scripts/extension.sh dev
wait "$frameworks_job" || { cat "$logs/frameworks" >&2; die "the frameworks' environment could not be made"; }
# Both have one busy process most of the time.
python/scripts/frameworks.sh >"$logs/frameworks" 2>&1 &
frameworks_job=$!
PYTHONPATH=$root/python/py_src "$python" -m pytest -q -p no:cacheprovider python/tests

say "frameworks: the loader in other libraries"
wait "$frameworks_job" || { cat "$logs/frameworks" >&2; die "tests of the frameworks failed"; }
tail -n 3 "$logs/frameworks"

say "documentation: the site, without warnings"
python/scripts/docs.sh

say "all tests passed, in $((SECONDS - start)) s"
