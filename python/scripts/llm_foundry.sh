#!/usr/bin/env bash
# Runs llm-foundry's tests with the reference and through the alias, and prints a table by file:
#     llm_foundry.sh CHECKOUT [FILE...]
# CHECKOUT is a checkout of https://github.com/mosaicml/llm-foundry. FILE is relative to it; the default is every test file
# that data sets matter to. Tests that fetch from Hugging Face's hub fail on both sides without a network.
. "$(dirname "$0")/lib.sh"
[ $# -ge 1 ] && [ -f "$1/llmfoundry/__init__.py" ] || die "usage: llm_foundry.sh CHECKOUT [FILE...]"

# llm-foundry and Composer require an older torch and releases that differ from the shared ones, but run with these.
packages=('pytest==8.4.2' accelerate apache-libcloud beautifulsoup4 coolname 'datasets>=3.3.2,<3.7' einops 'importlib-metadata<9'
    'mlflow-skinny<3.2' 'mosaicml-cli==0.7.5' 'omegaconf>=2.2.3,<3' onnx 'pandas<3' psutil py-cpuinfo sentencepiece 'slack-sdk<4'
    'tabulate==0.9.0' 'tenacity>=8.2.3,<10' toml 'torch_optimizer==0.3.0' 'torchmetrics==1.7.4' 'transformers==4.51.3' 'typer<1')
environment_over_shared llm-foundry "${packages[@]}" -- 'mosaicml==0.32.1'
python/scripts/extension.sh dev
PYTHONPATH=$root/python/py_src exec "$venv/bin/python" python/scripts/llm_foundry.py "$@"
