#!/usr/bin/env bash
# Tests the loader with the least versions of the libraries that python/docs/trainers/index.md lists; frameworks.sh has the newest.
# Not a part of `make test`, as it takes minutes. Arguments go to pytest; paths among them replace the files below.
. "$(dirname "$0")/lib.sh"

# Transformers 4.57 is in the shared environment, and Composer has one version that works with its torch.
environment_over_shared versions accelerate==1.3.0 keras==3.8.0 lightning==2.5.6 tensorflow-cpu==2.18.1 numpy==2.0.2
python/scripts/extension.sh dev
tests=(trainers/test_accelerate.py trainers/test_batch_sizes.py trainers/test_lightning.py trainers/test_transformers.py)
tests+=(frameworks/test_keras.py frameworks/test_tensorflow.py)
files=("${tests[@]/#/python/tests/}")
for argument in "$@"; do [ ! -e "${argument%%::*}" ] || files=(); done
# Transformers 4 would look for Keras 2.
export HF_HUB_OFFLINE=1 TF_CPP_MIN_LOG_LEVEL=2 USE_TF=0
PYTHONPATH=$root/python/py_src exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "${files[@]}" "$@"
