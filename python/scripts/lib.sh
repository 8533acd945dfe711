# Functions shared by the scripts in this folder: sourced, not run. Sets `root` and changes to it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
# HOME is unset where no user has logged in, such as in a container.
export HOME=${HOME:-~}

# Prints the current step, apart from the output of commands.
say() { printf '\n==> %s\n' "$*"; }

# Ends the script with an error, which names the necessary change.
die() { printf '\nerror: %s\n' "$*" >&2; exit 1; }

# The PATH of a non-login shell may lack rustup's folder.
if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
fi
target=${CARGO_TARGET_DIR:-$root/target}

# Sets `venv` to an environment over the shared one, with more packages or different versions, made once per list.
# `environment_over_shared NAME PACKAGE... [-- PACKAGE...]`: packages after `--` are installed without dependencies.
environment_over_shared() {
    local name=$1 shared hash
    shift
    shared=$(python/scripts/venv.sh)
    hash=$(printf '%s\n' "$shared" "$@" | sha256sum | cut -c1-12)
    venv=${XDG_CACHE_HOME:-$HOME/.cache}/forebay/$name-$hash
    [ ! -e "$venv/complete" ] || return 0
    mkdir -p "$(dirname "$venv")"
    # Two checkouts may start at once: the second waits and uses the result.
    exec 9>"$venv.lock"
    flock 9
    if [ ! -e "$venv/complete" ]; then
        say "making the environment $venv" >&2
        "$shared" -m venv "$venv"
        "$shared" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
            >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/shared.pth"
        local install=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check) packages=()
        while [ $# -gt 0 ] && [ "$1" != -- ]; do packages+=("$1"); shift; done
        "${install[@]}" "${packages[@]}"
        if [ $# -gt 0 ]; then "${install[@]}" --no-deps "${@:2}"; fi
        touch "$venv/complete"
    fi
    exec 9>&-
}

# Prints the first Python that is new enough, the plain name first.
find_python() {
    local name
    for name in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    die "no Python 3.10 or newer found; install one, or name it: make PYTHON=/path/to/python3"
}
