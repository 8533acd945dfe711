#!/usr/bin/env bash
# Installs the system packages that the build needs, where they are missing, and the PROGRAMS that a target needs
# besides, which have packages of their names: system.sh [PROGRAM...]
. "$(dirname "$0")/lib.sh"

# Checks, and the Debian and Ubuntu packages that provide the missing parts.
missing=()
need() { # need PACKAGE COMMAND...: COMMAND succeeds where the package is not needed
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}
need build-essential command -v cc
need build-essential command -v make
need build-essential command -v c++        # zstd's and libjpeg-turbo's build scripts look for it
need cmake command -v cmake                # libjpeg-turbo and aws-lc
need nasm command -v nasm                  # libjpeg-turbo's SIMD
need pkg-config command -v pkg-config
need libhwloc-dev pkg-config --exists hwloc
need libudev-dev pkg-config --exists libudev
need ca-certificates test -s /etc/ssl/certs/ca-certificates.crt
python=$(find_python 2>/dev/null || true)
need python3-venv "${python:-false}" -c 'import ensurepip, venv'
for program in "$@"; do need "$program" command -v "$program"; done

if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    command -v apt-get >/dev/null || die "these packages (Debian's names) are missing, install them with your system's package manager: ${missing[*]}"
    sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "run as root: apt-get install ${missing[*]}"
        sudo=(sudo)
    fi
    say "installing system packages: ${missing[*]}"
    "${sudo[@]}" apt-get update -q
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
fi

command -v cargo >/dev/null || die "cargo is missing: install Rust with rustup (https://rustup.rs), then run this again"
