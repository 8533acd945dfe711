#!/usr/bin/env bash
# Runs the reference's test suite against this checkout, through the alias:
#     reference_suite.sh CHECKOUT [--reference] [--tiers ABCE] [FILE...]
# CHECKOUT is a checkout of the reference's repository at the release in python/requirements.txt. The suite requires
# a different pytest and further packages, so it has a separate environment over the shared one.
. "$(dirname "$0")/lib.sh"
[ $# -ge 1 ] && [ -f "$1/tests/conftest.py" ] || die "usage: reference_suite.sh CHECKOUT [--reference] [--tiers ABCE] [FILE...]"
command -v java >/dev/null || die "java is missing: the suite starts Spark (Debian and Ubuntu: default-jre-headless)"

# moto simulates S3 and pyspark is Spark; later releases of Pillow and further packages differ from the suite's expectations.
packages=('pytest==8.4.2' 'moto>=5,<6' 'pyspark==3.5.9' 'pillow==11.3.0' 'pandas<3' pyarrow databricks-sdk 'huggingface_hub<1')
environment_over_shared suite "${packages[@]}"
python/scripts/extension.sh dev
PYTHONPATH=$root/python/py_src exec "$venv/bin/python" python/scripts/reference_suite.py "$@"
