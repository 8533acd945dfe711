#!/usr/bin/env bash
# Runs all checks: the gate, the Rust suites (including the C one), the Python suite. Uses the dev profile only. The last
# lines are the seconds of each phase, also if one fails.
. "$(dirname "$0")/lib.sh"
. python/scripts/phases.sh
python/scripts/system.sh
# Incremental compilation costs a quarter more CPU time in the first build. A checkout that has it keeps it.
[ -d "$target/debug/incremental" ] || export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}

# On a fresh machine the environments are downloaded while the engine compiles.
logs=$(mktemp -d) venv_job='' frameworks_job=''
trap 'status=$?; kill $venv_job $frameworks_job 2>/dev/null || true; print_phases $status; rm -rf "$logs"' EXIT
python/scripts/venv.sh >"$logs/python" 2>"$logs/venv" &
venv_job=$!
python/scripts/frameworks.sh --prepare >"$logs/frameworks" 2>&1 &
frameworks_job=$!

phase gate "format, lints, docs, layering, drift"
cargo gate

if command -v cargo-nextest >/dev/null; then
    phase "Rust build"
    cargo nextest run --locked --workspace --no-run
    phase "Rust tests"
    cargo nextest run --locked --workspace --no-fail-fast --status-level fail --final-status-level fail
    phase "doc tests" "examples in the documentation, which nextest does not run"
    cargo test --locked --workspace --doc --quiet
else
    phase "Rust build"
    cargo test --locked --workspace --no-run --quiet
    phase "Rust tests" "and the examples in the documentation"
    cargo test --locked --workspace --quiet
fi

phase models "locks and waits in many thread orders, by shuttle"
cargo test --locked -p forebay-loader --features shuttle --lib --quiet models::

phase extension
wait "$venv_job" || { cat "$logs/venv" >&2; die "the Python environment could not be made"; }
python=$(cat "$logs/python")
python/scripts/extension.sh dev
wait "$frameworks_job" || { cat "$logs/frameworks" >&2; die "the frameworks' environment could not be made"; }

phase Python "the tests, and those of the frameworks at the same time"
# Both have one busy process most of the time.
python/scripts/frameworks.sh >"$logs/frameworks" 2>&1 &
frameworks_job=$!
PYTHONPATH=$root/python/py_src "$python" -m pytest -q -p no:cacheprovider python/tests

phase frameworks "the loader in other libraries: the rest of their tests"
wait "$frameworks_job" || { cat "$logs/frameworks" >&2; die "tests of the frameworks failed"; }
tail -n 3 "$logs/frameworks"

phase site "the documentation, without warnings"
python/scripts/docs.sh
