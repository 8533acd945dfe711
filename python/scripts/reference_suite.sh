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
environment_over_shared suite "${packages[@]}"
python/scripts/extension.sh dev
PYTHONPATH=$root/python/py_src exec "$venv/bin/python" python/scripts/reference_suite.py "$@"
