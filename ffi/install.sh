#!/usr/bin/env bash
# Installs the C library: `make install PREFIX=/usr/local DESTDIR=`, or this script with the same variables.
#
# Rust gives the functions of a shared library no versions. So the library is linked here, from a static one and with
# the version script symbols.map, and with the arguments of build.rs. PROFILE=dev installs the library that the tests
# build.
. "$(dirname "$0")/../python/scripts/lib.sh"
prefix=${PREFIX:-/usr/local}
lib=${LIBDIR:-$prefix/lib} include=${INCLUDEDIR:-$prefix/include} profile=${PROFILE:-release}
for folder in "$prefix" "$lib" "$include"; do
    case $folder in /*) ;; *) die "PREFIX, LIBDIR and INCLUDEDIR are absolute paths, but one is $folder" ;; esac
done

constant() { sed -n "s/^#define FOREBAY_ABI_$1 //p" ffi/include/forebay.h; }
soname=libforebay.so.$(constant MAJOR)
file=$soname.$(constant MINOR)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# Two installations may run at once, and the static library has one path.
mkdir -p "$target"
exec 9>"$target/install.lock"
flock 9
cargo rustc --quiet --locked --profile "$profile" -p forebay-ffi --lib --crate-type staticlib
built=$target/$profile
[ "$profile" != dev ] || built=$target/debug

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# Every exported function is a root, and nothing is kept that no root reaches.
mapfile -t roots < <(sed -n 's/^ *\(forebay_[a-z_]*\);$/-Wl,-u,\1/p' ffi/symbols.map)
read -ra hwloc < <(pkg-config --libs hwloc)
"${CC:-cc}" -shared -o "$stage/$file" "${roots[@]}" "$built/libforebay.a" "${hwloc[@]}" -lgcc_s -lpthread -lm -ldl \
    -Wl,-soname,"$soname" -Wl,--version-script=ffi/symbols.map -Wl,--gc-sections -Wl,--strip-debug -Wl,-z,defs \
    -Wl,-z,nodelete
cat >"$stage/forebay.pc" <<PC
prefix=$prefix
libdir=$lib
includedir=$include

Name: forebay
Description: Training-data loader that streams shards from object storage
Version: $version
Libs: -L\${libdir} -lforebay
Cflags: -I\${includedir}
PC

to=${DESTDIR:-}
install -d "$to$lib/pkgconfig" "$to$include"
install -m 755 "$stage/$file" "$to$lib/$file"
ln -sf "$file" "$to$lib/$soname"
ln -sf "$soname" "$to$lib/libforebay.so"
install -m 644 "$stage/forebay.pc" "$to$lib/pkgconfig/forebay.pc"
install -m 644 ffi/include/forebay.h ffi/include/forebay.hpp "$to$include/"
say "installed $to$lib/$file, forebay.h, forebay.hpp and forebay.pc"
