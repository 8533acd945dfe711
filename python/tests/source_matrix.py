"""Tests that every source passes: `SourceMatrix` is the base of a class of tests with a fixture `case`."""

import dataclasses
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable

import pytest

import forebay as fb
from forebay.__main__ import main

SHUFFLED = {"shuffle": True, "seed": 7, "order": fb.Order(num_canonical_nodes=2)}


@dataclasses.dataclass(frozen=True)
class Case:
    """A data set of a source.

    Attributes:
        remote: Its address in a folder.
        stored: The same data set's address in the bucket `bucket`.
        options: Arguments of the Loader, such as `fields`. They can be pickled.
        rows: The samples of a batch as tuples. A function of a module, so that it can be pickled.
        samples: All samples as such tuples, in the order of their numbers. They are all different, and their number is a
            multiple of 16, so that no number of ranks repeats any.
        object_suffix: End of the keys of the objects that are fetched for samples.
    """

    remote: str
    stored: str
    options: dict
    rows: Callable
    samples: list
    object_suffix: str


def opened(case, remote=None, batch_size=8, **more):
    return fb.Loader(remote=remote or case.remote, batch_size=batch_size, framework="numpy", **case.options, **more)


def batches(case, loader):
    return [case.rows(batch) for batch in loader]


def global_batches(case, ranks, remote=None, state=None, epochs=1, **more):
    """The samples of each step of all ranks, sorted, since their positions in it depend on the number of ranks."""
    parts = []
    for rank in range(ranks):
        place = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        with opened(case, remote, 8 // ranks, world=place, **more) as loader:
            if state is not None:
                loader.load_state_dict(state, strict=False)
            parts.append([batch for _ in range(epochs) for batch in batches(case, loader)])
    return [sorted(sum(step, [])) for step in zip(*parts, strict=True)]


CHILD = """
import os, pickle, signal, sys
from source_matrix import SHUFFLED, opened
case, remote, local, steps, states = pickle.load(sys.stdin.buffer)
loader = opened(case, remote, local=local, **SHUFFLED)
for state in states:
    loader.load_state_dict(state)
for step, batch in enumerate(loader, 1):
    pickle.dump((case.rows(batch), loader.state_dict()), sys.stdout.buffer)
    sys.stdout.buffer.flush()
    if step == steps:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def started(case, remote, local, steps, *states):
    """Starts a process that reads from the last of `states` on and kills itself after `steps`."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    with tempfile.TemporaryFile() as given:
        pickle.dump((case, remote, local, steps, states), given)
        given.seek(0)
        return subprocess.Popen([sys.executable, "-c", CHILD], env=env, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def killed(case, remote, local, steps, *states):
    """Batches of a process that is killed after `steps`, and its last state."""
    with started(case, remote, local, steps, *states) as process:
        out, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors.decode()
    output, found = io.BytesIO(out), []
    while output.tell() < len(out):
        found.append(pickle.load(output))
    return [batch for batch, _ in found], found[-1][1]


def stored_bytes(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


class SourceMatrix:
    """Order, resumption and cache of a source. A sub-class has the fixture `case`, a data set with several shards."""

    CACHE_LIMIT = None
    """Bytes that hold the index and one shard, but not all shards."""

    def test_an_unshuffled_epoch_has_the_samples_in_their_order(self, case):
        with opened(case) as loader:
            assert sum(batches(case, loader), [])[: len(case.samples)] == case.samples

    @pytest.mark.parametrize("algo", ["py1e", "py1br", "py1s", "py2s", "naive"])
    def test_a_shuffled_epoch_has_each_sample_once(self, case, algo):
        with opened(case, **{**SHUFFLED, "order": fb.Order(shuffle_algo=algo, num_canonical_nodes=2)}) as loader:
            for _ in range(2):
                found = sum(batches(case, loader), [])
                assert sorted(set(found)) == sorted(case.samples)
                assert found[: len(case.samples)] != case.samples

    def test_global_batches_are_equal_on_any_number_of_ranks(self, case):
        whole = global_batches(case, 1, epochs=2, **SHUFFLED)
        for ranks in (2, 4, 8):
            assert global_batches(case, ranks, epochs=2, **SHUFFLED) == whole

    @pytest.mark.parametrize("before", [1, 4])
    def test_a_state_resumes_on_a_different_number_of_ranks(self, case, before):
        whole = global_batches(case, before, **SHUFFLED)
        place = fb.World(rank=0, world_size=before, local_rank=0, local_world_size=before)
        with opened(case, None, 8 // before, world=place, **SHUFFLED) as loader:
            taken = iter(loader)
            for _ in range(2):
                next(taken)
            state = json.loads(json.dumps(loader.state_dict()))
        for ranks in (1, 2, 8):
            assert global_batches(case, ranks, None, state, **SHUFFLED) == whole[2:]

    def test_a_killed_process_continues_from_its_last_state_and_its_cache(self, case, bucket_environment, tmp_path):
        with opened(case, **SHUFFLED) as loader:
            whole = batches(case, loader)
        found, state = killed(case, case.stored, tmp_path / "local", 2)
        assert found == whole[:2]
        with opened(case, case.stored, local=tmp_path / "local", **SHUFFLED) as loader:
            loader.load_state_dict(state)
            assert batches(case, loader) == whole[2:]

    def test_a_bucket_has_the_samples_of_the_folder(self, case, bucket, bucket_environment, tmp_path):
        with opened(case, **SHUFFLED) as loader:
            whole = [batches(case, loader) for _ in range(2)]
        with opened(case, case.stored, local=tmp_path / "local", **SHUFFLED) as loader:
            assert [batches(case, loader) for _ in range(2)] == whole
        bucket.seen.clear()
        with opened(case, case.stored, local=tmp_path / "local", **SHUFFLED) as loader:
            assert batches(case, loader) == whole[0]
        fetched = [request.key for request in bucket.seen if request.method == "GET"]
        assert [key for key in fetched if key.endswith(case.object_suffix)] == []

    def test_a_limited_cache_has_the_samples_of_the_folder(self, case, bucket_environment, tmp_path):
        with opened(case, **SHUFFLED) as loader:
            whole = [batches(case, loader) for _ in range(2)]
        limit = self.CACHE_LIMIT
        with opened(case, case.stored, local=tmp_path / "local", cache_limit=limit, **SHUFFLED) as loader:
            assert [batches(case, loader) for _ in range(2)] == whole
        assert stored_bytes(tmp_path / "local") <= limit

    def test_a_subset_has_its_samples_on_any_number_of_ranks(self, case):
        count = len(case.samples)
        # As many as all numbers of ranks divide, from several shards.
        numbers = [*range(3, count // 2 + 3, 2), *range(count // 2 + 5, count - 1)]
        numbers = numbers[: len(numbers) // 16 * 16]
        kept = [case.samples[number] for number in numbers]
        with opened(case, select=fb.Select(subset=numbers)) as loader:
            assert sum(batches(case, loader), []) == kept
        whole = global_batches(case, 1, select=fb.Select(subset=numbers), **SHUFFLED)
        assert sorted(sum(whole, [])) == sorted(kept)
        for ranks in (2, 4):
            assert global_batches(case, ranks, select=fb.Select(subset=numbers), **SHUFFLED) == whole

    def test_a_fraction_and_the_rest_are_all_samples(self, case):
        parts = []
        for fraction in [(0, 0.25), (0.25, 1)]:
            with opened(case, select=fb.Select(fraction=fraction, fraction_seed=5)) as loader:
                # The last batch of an epoch may have repeats.
                parts.append(sum(batches(case, loader), []))
        count = len(case.samples)
        assert len(set(parts[0])) == round(count / 4)
        assert sorted({*parts[0], *parts[1]}) == sorted(case.samples) and not set(parts[0]) & set(parts[1])

    def test_a_state_of_a_subset_resumes_on_a_different_number_of_ranks(self, case):
        options = {"select": fb.Select(subset=f"8:{len(case.samples) - 8}"), **SHUFFLED}
        whole = global_batches(case, 1, **options)
        with opened(case, **options) as loader:
            taken = iter(loader)
            next(taken)
            state = json.loads(json.dumps(loader.state_dict()))
        assert global_batches(case, 2, None, state, **options) == whole[1:]

    def test_the_samples_of_a_step_have_names_and_are_replayed(self, case):
        options = {"extra": ["sample_ids"], "select": fb.Select(subset=f"5:{len(case.samples) - 4}"), **SHUFFLED}
        with opened(case, **options) as loader:
            for step, batch in enumerate(loader):
                named = loader.samples_of(step)
                assert [case.samples[sample.number] for sample in named] == case.rows(batch)
                assert [[s.stream, s.shard, s.index] for s in named] == batch["sample_ids"].tolist()
                if step % 7 == 1:
                    assert case.rows(loader.replay(step)) == case.rows(batch)

    @pytest.mark.parametrize("command", ["info", "preview"])
    def test_the_command_shows_it(self, case, capfd, tmp_path, command):
        window = case.options.get("window")
        options = ["--window", str(getattr(window, "tokens", window))] if window else []
        assert main([command, case.remote, "--json", "--local", str(tmp_path / "shown"), *options]) == 0
        found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        if command == "info":
            [found] = found
            assert found["samples"] == len(case.samples) or window
            assert found["columns"] and found["read"]["samples"] and not found["read"]["damaged"]
        else:
            assert len(found) == 8 and all(row["columns"] for row in found)
