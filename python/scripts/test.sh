#!/usr/bin/env bash
# Runs all checks: the gate, the Rust suites (including the C one), the Python suite. Uses the dev profile only. The last
# lines are the seconds of each phase, also if one fails. `test.sh fast` leaves out the checks that take longest and seldom find
# something that the rest does not.
. "$(dirname "$0")/lib.sh"
. python/scripts/phases.sh
case ${1:-all} in
    all) is_fast='' ;;
    fast) is_fast=yes ;;
    *) die "usage: test.sh [fast]" ;;
esac
python/scripts/system.sh
# Incremental compilation costs a quarter more CPU time in the first build. A checkout that has it keeps it.
[ -n "$(ls -A "$target/debug/incremental" 2>/dev/null)" ] || export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}

logs=$(mktemp -d) jobs=()
end() {
    local status=$? job
    # Each has a process group, since its tests have processes, too.
    for job in "${jobs[@]}"; do kill -TERM -- "-$job" 2>/dev/null || true; done
    print_phases "$status"
    rm -rf "$logs"
}
trap end EXIT
# With the status of the signal: bash would give the trap above that of the last command.
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts a command in the background, with its output in a file: `start NAME COMMAND...`. Sets `job`.
start() {
    local name=$1
    shift
    setsid "$@" >"$logs/$name" 2>&1 &
    job=$!
    jobs+=("$job")
}

# On a fresh machine the environments are downloaded while the engine compiles.
setsid python/scripts/venv.sh >"$logs/environment" 2>"$logs/venv" &
environment_job=$! jobs+=("$environment_job")
[ -n "$is_fast" ] || start prepared python/scripts/frameworks.sh --prepare

phase extension "which compiles the engine"
python/scripts/extension.sh dev
wait "$environment_job" || { cat "$logs/venv" >&2; die "the Python environment could not be made"; }
python=$(cat "$logs/environment")

# The Python tests run from here on, next to everything else: most of the time of a compilation leaves a CPU idle. Each
# process takes whole files of tests, the longest first. The frameworks' have half of the processes in addition, so that
# the CPUs have work while a test waits.
processes=$(nproc)
[ "$processes" -le 8 ] || processes=8
parallel=(--dist loadfile --no-loadscope-reorder --durations=25)
tests=(-q -p no:cacheprovider -n "$processes" "${parallel[@]}" ${is_fast:+-m "not slow"} python/tests)
start python env PYTHONPATH="$root/python/py_src" nice -n 5 "$python" -m pytest "${tests[@]}"
python_job=$job
if [ -z "$is_fast" ]; then
    start frameworks nice -n 5 python/scripts/frameworks.sh --built -n "$(((processes + 1) / 2))" "${parallel[@]}"
    frameworks_job=$job
fi

phase gate "format, lints, docs, layering, drift"
checks=()
# All but the documentation.
[ -z "$is_fast" ] || checks=(format layering cycles functions width words type_names paths stubs lints generated)
cargo gate "${checks[@]}"

if command -v cargo-nextest >/dev/null; then
    phase "Rust build"
    cargo nextest run --locked --workspace --no-run
    phase "Rust tests"
    cargo nextest run --locked --workspace --no-fail-fast --status-level fail --final-status-level fail
    if [ -z "$is_fast" ]; then
        phase "doc tests" "examples in the documentation, which nextest does not run"
        cargo test --locked --workspace --doc --quiet
    fi
else
    phase "Rust build"
    cargo test --locked --workspace --no-run --quiet
    phase "Rust tests" "and the examples in the documentation"
    cargo test --locked --workspace --quiet
fi

if [ -z "$is_fast" ]; then
    phase models "locks and waits in many thread orders, by shuttle"
    # The bench has no library to test. It is named for the features of dependencies: with others those are compiled again.
    cargo test --locked -p forebay-core -p forebay-store -p forebay-bench --features shuttle --lib --quiet models::
fi

# Prints the output of a job until it ends, and notes it if it fails: `finish NAME JOB`.
failed=()
finish() {
    tail -n +1 --pid="$2" -f "$logs/$1"
    wait "$2" || failed+=("$1")
}
phase Python "the rest of its tests"
finish python "$python_job"
if [ -z "$is_fast" ]; then
    phase frameworks "the loader in third-party libraries: the rest of their tests"
    finish frameworks "$frameworks_job"
fi
[ ${#failed[@]} -eq 0 ] || die "these tests have failed: ${failed[*]}"

if [ -z "$is_fast" ]; then
    phase types "the public interface, as a type checker sees it"
    python/scripts/types.sh
    phase site "the documentation, without warnings"
    python/scripts/docs.sh
fi
