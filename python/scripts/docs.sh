#!/usr/bin/env bash
# Builds the documentation site from python/docs and the docstrings into target/docs. Warnings are errors. The generator has
# a separate environment: shared by all checkouts of this machine, and small, so the site needs neither torch nor Rust.
. "$(dirname "$0")/lib.sh"

requirements=$root/python/docs/requirements.txt
python=$(find_python)
version=$("$python" -c 'import sys; print(sys.version, sys.prefix)')
hash=$( { cat "$requirements"; echo "$version"; } | sha256sum | cut -c1-12)
venv=${XDG_CACHE_HOME:-$HOME/.cache}/forebay/docs-$hash

if [ ! -e "$venv/complete" ]; then
    mkdir -p "$(dirname "$venv")"
    # Two checkouts may start at once: the second one waits and then finds the environment.
    exec 9>"$venv.lock"
    flock 9
    if [ ! -e "$venv/complete" ]; then
        say "making the environment $venv (the documentation's generator, about 170 MB, once)"
        "$python" -m venv --clear "$venv" || die "$python cannot make an environment: install python3-venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
        touch "$venv/complete"
    fi
    exec 9>&-
fi

# The generator announces changes of later versions: they do not concern pinned ones. Not with --quiet, which would
# also keep warnings from being counted.
export NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true
if ! output=$("$venv/bin/python" -m mkdocs build --strict --config-file python/mkdocs.yml --site-dir "$target/docs" 2>&1); then
    printf '%s\n' "$output" | grep -v '^INFO' >&2
    die "the site was not built: correct the pages or docstrings that the warnings name"
fi
printf 'the site is in %s; with search: python3 -m http.server --directory %s\n' "$target/docs/index.html" "$target/docs"
