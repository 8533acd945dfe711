"""Composer's unmodified Trainer on our data sets through the alias: it trains, saves a checkpoint within an epoch, and
resumes it on a different number of ranks. python/scripts/composer.sh makes an environment that has Composer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bucket_server import bucket_server

from forebay.streaming import MDSWriter

pytest.importorskip("composer", reason="mosaicml is not installed: python/scripts/composer.sh")

SCRIPT = Path(__file__).with_name("composer_train.py")
ALIAS = ["-m", "forebay.streaming.alias"]
SAMPLES, GLOBAL_BATCH, STEPS = 60, 8, 11


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folders of the data set and of the files that each run saves and records."""
    folder = tmp_path_factory.mktemp("composer")
    with MDSWriter(out=str(folder / "remote"), columns={"number": "int"}, size_limit=1 << 9) as writer:
        for number in range(SAMPLES):
            writer.write({"number": number})
    return folder


def train(folder, name, until, *, ranks=1, save=None, load=None, alias=ALIAS):
    """Trains on `ranks` processes up to step `until`; the samples of each global batch."""
    arguments = [
        *("--remote", str(folder / "remote"), "--cache", str(folder / f"{name}-cache")),
        *("--record", str(folder / f"{name}-record"), "--save", save or str(folder / f"{name}-save")),
        *("--until", f"{until}ba", "--global-batch", str(GLOBAL_BATCH)),
        *(("--load", str(load)) if load else ()),
    ]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    # Composer's own launcher sets the number of the node; torch's does not.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NODE_RANK": "0"}
    subprocess.run([sys.executable, *launcher, *alias, str(SCRIPT), *arguments], check=True, timeout=900, env=environment)
    records = [(folder / f"{name}-record.{rank}").read_text().splitlines() for rank in range(ranks)]
    return [sorted(n for line in step for n in json.loads(line)["numbers"]) for step in zip(*records, strict=True)]


@pytest.fixture(scope="module")
def whole(folder):
    """The global batches of a run without an interruption, over more than an epoch."""
    return train(folder, "whole", STEPS)


def test_an_epoch_has_every_sample_and_the_next_begins(whole):
    assert len(whole) == STEPS
    steps = -(-SAMPLES // GLOBAL_BATCH)
    assert sorted(n for batch in whole[:steps] for n in batch) == list(range(SAMPLES))
    assert sorted(map(len, whole[steps:])) == [GLOBAL_BATCH] * (STEPS - steps)


def test_a_run_trains_on_the_same_samples_as_with_the_reference(folder, whole):
    assert train(folder, "reference", STEPS, alias=[]) == whole


def test_one_rank_resumes_an_epoch_that_two_ranks_began(folder, whole):
    assert train(folder, "first-two", 3, ranks=2) == whole[:3]
    saved = folder / "first-two-save" / "3.pt"
    assert train(folder, "then-one", STEPS, load=saved) == whole[3:]


def test_two_ranks_resume_an_epoch_that_one_rank_began(folder, whole):
    saved = folder / "whole-save" / "5.pt"
    assert train(folder, "then-two", STEPS, ranks=2, load=saved) == whole[5:]


def test_a_run_resumes_from_a_bucket_with_the_store_of_composer(folder, whole, monkeypatch):
    """Composer uploads with boto3, in processes that it spawns."""
    pytest.importorskip("boto3", reason="Composer reads and writes s3:// with boto3")
    # The server takes bodies as they are, without a checksum at their end.
    for name in ("AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION"):
        monkeypatch.setenv(name, "when_required")
    with bucket_server() as server:
        environment = server.environment()
        for name, value in {**environment, "AWS_DEFAULT_REGION": environment["AWS_REGION"]}.items():
            monkeypatch.setenv(name, value)
        assert train(folder, "to-bucket", 4, save="s3://bucket/run") == whole[:4]
        assert {f"run/{step}.pt" for step in range(1, 5)} <= set(server.objects)
        assert train(folder, "from-bucket", STEPS, load="s3://bucket/run/3.pt") == whole[3:]
