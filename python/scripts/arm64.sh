#!/usr/bin/env bash
# Runs the decoders' tests for 64-bit ARM in an emulator: the NEON kernels against the portable ones and
# libjpeg-turbo. Arguments are names of tests; all of the pictures' and the fields' if there are none. `make test` does not need it.
. "$(dirname "$0")/lib.sh"

machine=aarch64-linux-gnu
packages="qemu-user gcc-$machine g++-$machine"
for command in qemu-aarch64 $machine-gcc $machine-g++; do
    command -v "$command" >/dev/null || die "$command is missing: apt-get install $packages"
done
export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_LIBDIR=/usr/lib/$machine/pkgconfig:/usr/share/pkgconfig
pkg-config --exists hwloc libudev ||
    die "hwloc for ARM is missing: dpkg --add-architecture arm64 && apt-get update && apt-get install libhwloc-dev:arm64 libudev-dev:arm64"
rustup target list --installed 2>/dev/null | grep -q ^aarch64-unknown-linux-gnu ||
    die "Rust for ARM is missing: rustup target add aarch64-unknown-linux-gnu"

export CC_aarch64_unknown_linux_gnu=$machine-gcc CXX_aarch64_unknown_linux_gnu=$machine-g++
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$machine-gcc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
run() {
    cargo test --locked --target aarch64-unknown-linux-gnu -p "$1" --lib -- "${@:2}"
}
run forebay-picture "$@"
[ $# -gt 0 ] || set -- decode::
run forebay-loader "$@"
