#!/usr/bin/env bash
# Builds the extension and puts it into the source package: extension.sh dev|release [CARGO ARGUMENTS].
# The arguments add packages to the same call of cargo, so that their common crates are compiled once.
# With python/py_src on PYTHONPATH the package then works without installation into the shared environment.
. "$(dirname "$0")/lib.sh"

case ${1:-dev} in
    dev) profile=(--profile dev) folder=debug ;;
    release) profile=(--release) folder=release ;;
    *) die "usage: extension.sh dev|release [CARGO ARGUMENTS]" ;;
esac
shift || true
# The crates with features by name, so that they have the features that they have in tests of the workspace. With others the
# engine would be compiled a second time for those.
crates=(-p forebay-core -p forebay-gpu -p forebay-loader -p forebay-python)
cargo build --locked "${crates[@]}" --lib "${profile[@]}" "$@"
built=$target/$folder/lib_forebay.so
placed=python/py_src/forebay/_forebay.abi3.so
# A process may have the old file mapped: the name is replaced, never the bytes.
cmp -s "$built" "$placed" || { cp "$built" "$placed.new" && mv "$placed.new" "$placed"; }
