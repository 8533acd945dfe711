#!/usr/bin/env bash
# Checks the types of the public interface as a type checker sees them. The checker has a small environment over the shared
# one, which is made once; a run takes seconds.
. "$(dirname "$0")/lib.sh"

environment_over_shared types basedpyright==1.40.2
PYTHONPATH=$root/python/py_src "$venv/bin/python" -m pytest -q -p no:cacheprovider python/tests/test_types.py
