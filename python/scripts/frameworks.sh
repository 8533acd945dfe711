#!/usr/bin/env bash
# Tests the loader in third-party libraries: python/tests/trainers and python/tests/frameworks, with their released versions in an
# environment over the shared one. `frameworks.sh --prepare` only makes that environment, and `--built` takes the extension as
# it is. Further arguments go to pytest; paths among them replace the two folders.
. "$(dirname "$0")/lib.sh"

packages=(
    accelerate==1.15.0
    datasets==5.2.0
    jax==0.10.2
    keras==3.15.1
    lightning==2.6.6
    orbax-checkpoint==0.11.40
    'ray[train]==2.60.0'
    tensorflow-cpu==2.21.0
    torchdata==0.11.0
    transformers==5.24.0
    # Composer's imports. It is installed without its dependencies, which include a second torch and Pillow.
    coolname 'importlib-metadata<9' mosaicml-cli==0.7.5 psutil py-cpuinfo tabulate==0.9.0 torch_optimizer==0.3.0
    torchmetrics==1.7.4
    numpy==2.1.3                # the shared one's
)
if ! "$(find_python)" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "frameworks: skipped, because their released versions need Python 3.11 or newer"
    exit 0
fi
# The resolver's warning about the bench's mosaicml-streaming, which these tests do not use, is expected.
# timm needs none of its dependencies that are not there: its transforms are tested. torchtitan's checkpoints and data loader need these alone of its dependencies, which include datasets and wandb.
environment_over_shared frameworks "${packages[@]}" -- mosaicml==0.32.1 torchtitan==0.3.0 timm==1.0.31 tyro==1.0.17 docstring-parser==0.18.0 trl==1.16.0
case ${1:-} in
    --prepare) exit 0 ;;
    --built) shift ;;
    *) python/scripts/extension.sh dev ;;
esac
folders=()
for folder in python/tests/trainers python/tests/frameworks python/tests/augment/test_timm.py; do [ ! -e "$folder" ] || folders+=("$folder"); done
for argument in "$@"; do [ ! -e "${argument%%::*}" ] || folders=(); done
# Nothing here reports to servers or looks for models on them.
export RAY_USAGE_STATS_ENABLED=0 HF_HUB_OFFLINE=1 TF_CPP_MIN_LOG_LEVEL=2
PYTHONPATH=$root/python/py_src exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "${folders[@]}" "$@"
