"""Jobs of several processes that train, are killed, and resume.

A job file imports its library once and calls `main` with a function that trains. `main` forks the processes of three jobs:
one without an interruption, one that is killed after it has saved a checkpoint in mid-epoch, and one that resumes that
checkpoint on a different number of processes. `OTHER_BATCHES` are jobs that resume it with a different global batch. Each process
records the samples of each step.
"""

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import torch

import forebay as fb

SAMPLES, GLOBAL_BATCH, EPOCHS = 84, 12, 2
STEPS = SAMPLES // GLOBAL_BATCH
SAVED, KILLED = 4, 6
"""Steps after which a job saves its checkpoint and is killed, both in the first epoch."""

RANKS = {"whole": 1, "killed": 2, "resumed": 3, "larger": 3, "smaller": 3}
"""Processes of each job."""

OTHER_BATCHES = {"larger": 30, "smaller": 6}
"""Global batches of the jobs that have a different one. A larger one has fewer batches in an epoch than were trained on."""


@dataclass
class Rank:
    """One process of a job."""

    job: str
    rank: int
    ranks: int
    folder: Path

    @property
    def global_batch(self):
        return OTHER_BATCHES.get(self.job, GLOBAL_BATCH)

    @property
    def batch_size(self):
        return self.global_batch // self.ranks

    @property
    def resumes(self):
        return self.job not in ("whole", "killed")

    @property
    def steps(self):
        """Steps after which the job ends, with the steps of the job that it resumes."""
        if self.resumes:
            return SAVED + rest_of_epoch(self.global_batch) + (EPOCHS - 1) * math.ceil(SAMPLES / self.global_batch)
        return EPOCHS * STEPS

    @property
    def saves(self):
        """Folder of the checkpoints of this job, or of the one that it resumes."""
        return self.folder / ("saves" if self.job in ("killed", "resumed") else f"saves-{self.job}")

    def loader(self, **arguments):
        """The loader of this rank."""
        return loader_of(self.folder, batch_size=self.batch_size, **arguments)

    def step(self, batch):
        """Records a step, and ends the process where the job is to be killed; the batch as floats."""
        self.record(batch["x"].tolist())
        return batch["x"].float()[:, None] / SAMPLES

    def record(self, samples):
        """Records the samples of a step, and ends the process where the job is to be killed."""
        with open(record_of(self.folder, self.job, self.rank), "a+") as file:
            file.write(json.dumps(samples) + "\n")
            file.flush()
            file.seek(0)
            if self.job == "killed" and len(file.readlines()) == KILLED:
                os.kill(os.getpid(), signal.SIGKILL)


def rest_of_epoch(global_batch):
    """Steps of the epoch that a job with this global batch resumes."""
    return math.ceil((SAMPLES - SAVED * GLOBAL_BATCH) / global_batch)


def loader_of(folder, **arguments):
    fields = {"x": fb.Scalar("number")}
    return fb.Loader(
        local=folder / "data", **{"fields": fields, "shuffle": True, "threads": 1, "engine": fb.Engine(memory="64mb")} | arguments
    )


def record_of(folder, job, rank):
    return folder / f"{job}-{rank}.jsonl"


def write_data(folder):
    """Writes the data set."""
    with fb.MDSWriter(out=str(folder / "data"), columns={"number": "int"}, size_limit=1 << 9) as writer:
        for number in range(SAMPLES):
            writer.write({"number": number})


def main(train, others=()):
    """Runs the jobs. Their processes call `train` with a `Rank`; `others` are jobs with a different global batch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_known_args()[0].folder
    torch.set_num_threads(1)
    # The first optimizer imports hundreds of modules, here for all ranks.
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
    for job in ("whole", "killed", "resumed", *others):
        ranks = RANKS[job]
        children = [fork(train, Rank(job, rank, ranks, folder)) for rank in range(ranks)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        if job == "killed":
            # A rank may have failed because a different rank was killed.
            assert -signal.SIGKILL in codes, codes
            saves = Rank(job, 0, ranks, folder).saves
            for other in others:
                copy = shutil.copytree if saves.is_dir() else shutil.copyfile
                copy(saves, Rank(other, 0, RANKS[other], folder).saves)
        elif any(codes):
            sys.exit(f"the job {job} failed: {codes}")


def fork(train, rank):
    """Starts a process of a job with the variables of torchrun and a process group that meets in a file."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ |= {"RANK": str(rank.rank), "WORLD_SIZE": str(rank.ranks), "NODE_RANK": "0", "GROUP_RANK": "0"}
        os.environ |= {"LOCAL_RANK": str(rank.rank), "LOCAL_WORLD_SIZE": str(rank.ranks)}
        # No library connects to these: the group exists when they look for it.
        os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
        meeting = f"file://{rank.folder / rank.job}.meeting"
        torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank.rank, world_size=rank.ranks)
        train(rank)
        code = 0
    except BaseException:
        if rank.job != "killed":
            traceback.print_exc()
    finally:
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(code)


def run(name, folder):
    """Writes the data set, and runs the jobs of the file `name` on it; the samples of each step of each job."""
    write_data(folder)
    return {"bare": bare(folder)} | run_jobs(folder, name)


def run_jobs(folder, name, *arguments):
    """Runs the jobs of the file `name` in a new process; the samples of each step of each job."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    job = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(name)), str(folder), *arguments],
        env=environment,
        timeout=600,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert job.returncode == 0, job.stdout
    # Not every file has an undisturbed job.
    jobs = [job for job in RANKS if record_of(folder, job, 0).exists()]
    return {job: steps(folder, job) for job in jobs}


def bare(folder):
    """The samples of each step of a loop over the loader alone."""
    with loader_of(folder, batch_size=GLOBAL_BATCH) as loader:
        return [sorted(batch["x"].tolist()) for _ in range(EPOCHS) for batch in loader]


def steps(folder, job):
    """The samples of each step of a job, the samples of all its ranks together. A killed rank may have recorded a step less."""
    records = [record_of(folder, job, rank).read_text().splitlines() for rank in range(RANKS[job])]
    return [sorted(number for line in step for number in json.loads(line)) for step in zip(*records, strict=job != "killed")]


def check(jobs):
    """Compares the jobs: all train on the same samples in every step, each sample once per epoch."""
    bare = jobs["bare"]
    assert sorted(sum(bare[:STEPS], [])) == list(range(SAMPLES)) and bare[0] != bare[STEPS]
    assert jobs.get("whole", bare) == bare
    assert jobs["killed"][:SAVED] == bare[:SAVED]
    assert jobs["resumed"] == bare[SAVED:]
    for job, global_batch in OTHER_BATCHES.items():
        if job in jobs:
            rest = rest_of_epoch(global_batch)
            assert sorted(sum(jobs[job][:rest], [])) == sorted(sum(bare[SAVED:STEPS], [])), job
            assert sorted(sum(jobs[job][rest:], [])) == list(range(SAMPLES)), job
