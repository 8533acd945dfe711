#!/usr/bin/env bash
# Runs the reference's own test suite against this checkout, through the alias:
#     reference_suite.sh CHECKOUT [--reference] [--tiers ABCE] [FILE...]
# CHECKOUT is a checkout of the reference's repository at the release that python/requirements.txt names. The suite asks
# for another pytest and for packages of its own, so it gets an environment of its own, over the shared one.
. "$(dirname "$0")/lib.sh"
[ $# -ge 1 ] && [ -f "$1/tests/conftest.py" ] || die "usage: reference_suite.sh CHECKOUT [--reference] [--tiers ABCE] [FILE...]"
command -v java >/dev/null || die "java is missing: the suite starts Spark (Debian and Ubuntu: default-jre-headless)"

# moto plays S3 and pyspark is Spark; later releases of Pillow and of the others do not do what the suite expects.
packages=('pytest==8.4.2' 'moto>=5,<6' 'pyspark==3.5.9' 'pillow==11.3.0' 'pandas<3' pyarrow databricks-sdk 'huggingface_hub<1')
shared=$(python/scripts/venv.sh)
hash=$(printf '%s\n' "$shared" "${packages[@]}" | sha256sum | cut -c1-12)
venv=${XDG_CACHE_HOME:-$HOME/.cache}/forebay/suite-$hash
if [ ! -e "$venv/complete" ]; then
    say "making the suite's environment $venv" >&2
    "$shared" -m venv "$venv"
    "$shared" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
        >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/shared.pth"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
    touch "$venv/complete"
fi
python/scripts/extension.sh dev
PYTHONPATH=$root/python/py_src exec "$venv/bin/python" python/scripts/reference_suite.py "$@"
