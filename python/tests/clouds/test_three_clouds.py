"""The example of a job that is killed in one cloud and continues in the next.

Data and checkpoints are in one bucket; its server records the requests of each machine. A cloud is a number of machines,
each with its own access key and its own disk.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from bucket_server import Bucket

import forebay as fb
from forebay import checkpoint

torch = pytest.importorskip("torch")

JOB = Path(__file__).with_name("site_job.py")
STEPS, STEPS_PER_EPOCH, SAMPLES = 24, 8, 192
"""Steps of three epochs."""


@dataclass(frozen=True)
class Cloud:
    """Machines of the job."""

    name: str
    machines: int
    per_machine: int
    """Ranks of each machine."""
    data: str = "tokens"
    """Folder in the bucket."""

    @property
    def names(self):
        return [f"{self.name}{machine}" for machine in range(self.machines)]


# The second one has a copy of the data set, at a different address.
WHOLE, A, B, C = Cloud("whole", 1, 1), Cloud("a", 2, 2), Cloud("b", 1, 2, data="copy"), Cloud("c", 3, 1)


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """The bucket. This process has a machine's environment too."""
    bucket = Bucket()
    machines = [name for cloud in (WHOLE, A, B, C) for name in cloud.names]
    environments = {name: bucket.environment(name) for name in machines}
    (tmp_path / "environments.json").write_text(json.dumps(environments))
    for name, value in bucket.environment("test").items():
        monkeypatch.setenv(name, value)
    yield bucket
    bucket.close()


class Job:
    """Ranks of a cloud, which are killed at the end of the block."""

    def __init__(self, jobs, cloud, *, checkpoints="s3://bucket/run", stop=None):
        arguments = [cloud.name, "--data", f"s3://bucket/{cloud.data}"]
        arguments += ["--machines", str(cloud.machines), "--per-machine", str(cloud.per_machine)]
        arguments += ["--checkpoints", checkpoints] + ([] if stop is None else ["--stop", str(stop)])
        self._jobs, self._arguments, self._result = jobs, arguments, None

    def __enter__(self):
        print(json.dumps(self._arguments), file=self._jobs.stdin, flush=True)
        self._group = int(self._jobs.stdout.readline())
        return self

    def __exit__(self, *_):
        if self._result is None:
            os.killpg(self._group, signal.SIGKILL)
            while self._jobs.stdout.readline() not in ("failed\n", ""):
                pass

    def wait_until_stopped(self, ranks):
        """Waits until all ranks are at the step at which they stop."""
        for _ in range(ranks):
            assert self._jobs.stdout.readline() == "stopped\n"

    def finish(self):
        """Waits for the end of training."""
        self._result = self._jobs.stdout.readline()
        assert self._result == "finished\n"


def steps(folder, cloud):
    """The samples of each step of each rank."""
    records = [folder / f"{cloud.name}.{rank}.jsonl" for rank in range(cloud.machines * cloud.per_machine)]
    lines = [[json.loads(line) for line in record.read_text().splitlines()] for record in records]
    return [{step: samples for step, samples in rank} for rank in lines]


def together(ranks):
    """The samples of each step of all ranks."""
    assert len({tuple(rank) for rank in ranks}) == 1
    return {step: sorted(sum((rank[step] for rank in ranks), [])) for step in ranks[0]}


def fetched(bucket, machine, data):
    """Files of the data set that a machine has requested, and how often."""
    keys = [seen.key for seen in bucket.seen if seen.machine == machine and not seen.key.startswith("run/") and seen.key]
    return {key.removeprefix(f"{data}/"): keys.count(key) for key in keys}


def used(index, ranks):
    """Shards with the samples of ranks."""
    trained = {sample for rank in ranks for samples in rank.values() for sample in samples}
    files, first = set(), 0
    for shard in index["shards"]:
        if not trained.isdisjoint(range(first, first + shard["samples"])):
            files.add(shard["raw_data"]["basename"])
        first += shard["samples"]
    return files


@pytest.fixture
def jobs(bucket, tmp_path):
    """The process that forks the ranks of all jobs. It has written the example's data set, which is copied."""
    command = [sys.executable, str(JOB), str(tmp_path), "s3://bucket/tokens"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "written\n"
        bucket.objects |= {key.replace("tokens", "copy"): body for key, body in bucket.objects.items()}
        yield process


def flat(state):
    """Tensors of the model and of the optimizer."""
    momenta = {f"momentum {number}": held["momentum_buffer"] for number, held in state["optimizer"]["state"].items()}
    return state["model"] | momenta


def test_a_job_that_is_killed_in_two_clouds_ends_in_the_third_as_if_it_was_never_killed(bucket, jobs, tmp_path):
    with Job(jobs, WHOLE, checkpoints="s3://bucket/undisturbed") as job:
        job.finish()
    with Job(jobs, A, stop=11) as job:
        job.wait_until_stopped(ranks=4)
    # Killed in the middle of a save: the parts are in the bucket, and the commit is not.
    bucket.holds = lambda machine, method, key: (method, key) == ("PUT", "run/step-000018/commit.json")
    with Job(jobs, B) as job:
        assert bucket.held.wait(600)
    bucket.holds = lambda *_: False
    assert checkpoint.latest("s3://bucket/run").step == 15
    with Job(jobs, C) as job:
        job.finish()

    whole, *clouds = (steps(tmp_path, cloud) for cloud in (WHOLE, A, B, C))
    expected = together(whole)
    assert list(expected) == list(range(1, STEPS + 1))
    for epoch in range(3):
        of_epoch = [expected[step] for step in expected if (step - 1) // STEPS_PER_EPOCH == epoch]
        assert sorted(sum(of_epoch, [])) == list(range(SAMPLES))
    ranges = {"a": range(1, 12), "b": range(10, 19), "c": range(16, 25)}
    for ranks, found in zip(clouds, ranges.values(), strict=True):
        assert together(ranks) == {step: expected[step] for step in found}

    states = [checkpoint.latest(f"s3://bucket/{run}") for run in ("undisturbed", "run")]
    assert [state.step for state in states] == [STEPS, STEPS]
    undisturbed, killed = (flat(state.load()) for state in states)
    assert undisturbed.keys() == killed.keys() and len(killed) == 14
    assert [name for name in killed if not torch.equal(undisturbed[name], killed[name])] == []

    index = json.loads(bucket.objects["tokens/index.json"])
    # A late part is requested a second time if it is less than a twentieth of the fetched bytes: no shard here is that small.
    sizes = [shard["raw_data"]["bytes"] for shard in index["shards"]]
    assert 20 * min(sizes) > sum(sizes) - min(sizes) + len(bucket.objects["tokens/index.json"])
    for cloud, ranks in zip((A, B, C), clouds, strict=True):
        for machine, name in enumerate(cloud.names):
            own = ranks[machine * cloud.per_machine : (machine + 1) * cloud.per_machine]
            # Each rank compares the index; the shards are fetched once for all ranks of a machine, and only those they need.
            expected = {"index.json": cloud.per_machine} | dict.fromkeys(used(index, own), 1)
            assert fetched(bucket, name, cloud.data) == expected, name
    assert bucket.rejected == []


def test_the_bucket_rejects_the_signature_of_a_wrong_key(bucket, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(fb.AccessError):
        list(fb.list_files("s3://bucket/", store=fb.StoreOptions(retry=1)))
    assert bucket.rejected[0].endswith("another signature")
