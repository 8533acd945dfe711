#!/usr/bin/env bash
# Builds a wheel for glibc 2.28 (Debian 10, RHEL 8, Ubuntu 20.04) and newer, into target/wheels, and checks it.
# zig is the C compiler and linker, since it has the symbols of every glibc. WHEEL_ARCH=aarch64 builds for 64-bit ARM.
. "$(dirname "$0")/lib.sh"
arch=${WHEEL_ARCH:-$(uname -m)}
rust=$arch-unknown-linux-gnu

python/scripts/system.sh
environment_over_shared wheel 'ziglang==0.15.2'
if command -v rustup >/dev/null; then
    rustup target list --installed | grep -qx "$rust" || rustup target add "$rust"
fi
# The licences of the crates go into the wheel; it gets the list of them (SBOM) from maturin.
trap 'rm -f python/LICENSE.crates' EXIT
"$venv/bin/python" python/scripts/licences.py "$rust" python/LICENSE.crates
# Without hwloc, which would have to be compiled for the same glibc: NUMA nodes are then read from the kernel's files.
# The first Python of the PATH has zig, the second maturin.
PATH="$venv/bin:$(dirname "$(python/scripts/venv.sh)"):$PATH" maturin build --release --locked --strip --zig --target "$rust" \
    --compatibility manylinux_2_28 --no-default-features --manifest-path python/Cargo.toml
"$venv/bin/python" python/scripts/wheel_check.py "$target"/wheels/forebay-*manylinux_2_28_"$arch".whl
