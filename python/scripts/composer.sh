#!/usr/bin/env bash
# Runs Composer's Trainer (PyPI: mosaicml) over this checkout through the alias: python/tests/streaming/test_composer.py.
# Further arguments go to pytest. Composer requires an older torch and Pillow than the shared ones but runs with these; it
# has a separate environment over the shared one.
. "$(dirname "$0")/lib.sh"

composer='mosaicml==0.32.1'
packages=(coolname 'importlib-metadata<9' 'mosaicml-cli==0.7.5' psutil py-cpuinfo 'tabulate==0.9.0' 'torch_optimizer==0.3.0' 'torchmetrics==1.7.4')
# The Trainer is installed without dependencies, which would include a second torch.
environment_over_shared composer "${packages[@]}" -- "$composer"
python/scripts/extension.sh dev
PYTHONPATH=$root/python/py_src exec "$venv/bin/python" -m pytest -q -p no:cacheprovider python/tests/streaming/test_composer.py "$@"
