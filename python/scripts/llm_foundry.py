"""Runs llm-foundry's test files with the reference and through the alias, and compares. `llm_foundry.sh` calls it."""

import argparse
import os
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from subprocess import STDOUT, TimeoutExpired, run

FILES = (
    "a_scripts/data_prep callbacks data eval/test_in_context_learning_datasets.py models/llm_embed tokenizers utils "
    "test_registry.py test_utils.py"
)
"""Files and folders below `tests`."""

TIMEOUT_S = 3600
"""For one file."""


TOKENIZERS = "bertt codellama gpt2 llama mptct mptt neox t5"
"""Folders below `tests/assets/tokenizers`, which the tests download from GitHub."""


def make_tokenizers(checkout: Path) -> None:
    """Makes stand-ins for the tokenizers if they have not been downloaded: byte pairs of the checkout's own texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GPT2TokenizerFast

    folder = checkout / "tests" / "assets" / "tokenizers"
    if folder.is_dir() and any(folder.iterdir()):
        return
    end = "<|endoftext|>"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=8000, special_tokens=[end], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train([str(path) for path in sorted(checkout.rglob("*.md"))], trainer)
    whole = GPT2TokenizerFast(tokenizer_object=tokenizer, bos_token=end, eos_token=end, unk_token=end)
    for name in TOKENIZERS.split():
        whole.save_pretrained(folder / name)


def outcomes(checkout: Path, path: str, arguments: list[str]) -> dict[str, str]:
    """Outcome of each case of a file: "passed", "failed" or "skipped"."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-o", "junit_family=xunit1", "-m", "not gpu"]
        command += ["-p", "no:cacheprovider", f"--junitxml={report}", path, *arguments]
        # A package of that name next to the tests is the one that they import.
        paths = os.pathsep.join([str(checkout), os.environ["PYTHONPATH"]])
        environment = {**os.environ, "PYTHONPATH": paths, "HF_HUB_DOWNLOAD_TIMEOUT": "2", "TMPDIR": folder}
        output = Path(folder, "output")
        try:
            with open(output, "wb") as out:
                run(command, cwd=checkout, env=environment, stdout=out, stderr=STDOUT, timeout=TIMEOUT_S)
        except TimeoutExpired:
            return {f"(no end within {TIMEOUT_S} s)": "failed"}
        if not os.path.exists(report):
            sys.stderr.write(output.read_text(errors="replace")[-4000:])
            return {"(no report)": "failed"}
        found = {}
        for case in ElementTree.parse(report).iter("testcase"):
            kinds = {child.tag for child in case}
            is_failure = bool(kinds & {"failure", "error"})
            outcome = "failed" if is_failure else "skipped" if "skipped" in kinds else "passed"
            found[f"{case.get('classname')}::{case.get('name')}"] = outcome
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("files", nargs="*", help="such as tests/data/test_packing.py; default: files that use data sets")
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    files = arguments.files
    if not files:
        chosen = [checkout / "tests" / name for name in FILES.split()]
        found = [path for name in chosen for path in (sorted(name.rglob("test_*.py")) if name.is_dir() else [name])]
        files = [str(path.relative_to(checkout)) for path in found]
    make_tokenizers(checkout)
    print("| file | reference: passed | failed | alias: passed | failed | skipped | other outcome |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    worse = []
    totals = [0] * 6
    for path in files:
        theirs = outcomes(checkout, path, [])
        ours = outcomes(checkout, path, ["-p", "forebay.streaming.alias"])
        other = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
        counts = [list(side.values()).count(kind) for side in (theirs, ours) for kind in ("passed", "failed")]
        counts += [list(ours.values()).count("skipped"), len(other)]
        totals = [total + count for total, count in zip(totals, counts)]
        print(f"| {path} | {' | '.join(map(str, counts))} |", flush=True)
        worse += [f"{name}: {theirs.get(name, 'absent')}, with the alias {ours.get(name, 'absent')}" for name in other]
    print(f"| all | {' | '.join(map(str, totals))} |")
    for line in worse:
        print(line)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
