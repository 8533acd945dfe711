"""Batches of worker processes: equal to the reference's through StreamingDataLoader, in memory that is used again."""

import collections
import gc
import os
import signal
import threading
from multiprocessing import resource_sharer

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate, get_worker_info
from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map

from forebay.streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from forebay.streaming.base import _batches

COLUMNS = {
    "number": "int",
    "text": "str",
    "short": "bytes",
    "long": "bytes",
    "weight": "float32",
    "picture": "ndarray:uint16:40,300",
    "tokens": "ndarray:uint16:4",
}
Pair = collections.namedtuple("Pair", "left right")


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    """50 samples of 100 kB, in shards of five."""
    folder = str(tmp_path_factory.mktemp("remote") / "data")
    with MDSWriter(out=folder, columns=COLUMNS, size_limit=5 << 17) as writer:
        for number in range(50):
            writer.write(
                {
                    "number": number,
                    "text": f"sample {number}" * (number % 5),
                    "short": bytes([number]) * (number % 7),
                    "long": bytes([number]) * (70_000 + number),
                    "weight": np.float32(number / 3),
                    "picture": np.full((40, 300), number, np.uint16),
                    "tokens": np.arange(4, dtype=np.uint16) + number,
                }
            )
    return folder


def as_they_are(samples):
    return samples


def of_every_kind(samples):
    """Views, strides, types and layouts that default_collate does not make."""
    batch = default_collate(samples)
    pictures = batch["picture"]
    shared = torch.arange(30_000.0)
    pictures_last = pictures.float().reshape(-1, 10, 40, 30).to(memory_format=torch.channels_last)
    return {
        "number": batch["number"],
        "twice": [shared, shared],
        "inputs": pictures[:, :-1],
        "targets": pictures[:, 1:],
        "last": pictures_last,
        "expanded": torch.ones(1, 5).expand(9, 5),
        "half": pictures.to(torch.bfloat16),
        "mask": pictures.int() > 3,
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(7),
        "gradient": torch.ones(20_000, requires_grad=True),
        "sparse": torch.eye(3).to_sparse(),
        "complex": torch.ones(3, dtype=torch.complex64).conj(),
        "arrays": (np.asfortranarray(samples[0]["picture"]), samples[0]["picture"][::2], np.array(["a", None])),
        "pair": Pair(pictures[0], None),
        "set": {1, "a"},
        "mapping": collections.OrderedDict(text=batch["text"], long=bytearray(samples[0]["long"])),
    }


def described(value):
    """Types and contents, for comparisons."""
    if isinstance(value, torch.Tensor):
        facts = (value.dtype, tuple(value.shape), value.layout, value.requires_grad, value.is_conj())
        stride = value.stride() if value.layout is torch.strided else None
        return type(value), *facts, stride, value.detach().to_dense().resolve_conj().float().tolist()
    if isinstance(value, np.ndarray):
        return type(value), value.dtype, value.shape, value.flags.f_contiguous, value.flags.writeable, value.tolist()
    if isinstance(value, dict):
        return type(value), [(key, described(each)) for key, each in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [described(each) for each in value]
    return type(value), value


@pytest.mark.filterwarnings(
    "ignore:Casting complex values", "ignore:The given NumPy array is not", "ignore:This DataLoader will create"
)
@pytest.mark.parametrize("collate", [None, as_they_are, of_every_kind])
@pytest.mark.parametrize(
    ("workers", "settings"), [(1, {}), (2, {"drop_last": True, "persistent_workers": True}), (3, {"prefetch_factor": 1})]
)
def test_batches_are_the_references(reference, ours, remote, collate, workers, settings):
    def epochs(module):
        dataset = module("base.dataset").StreamingDataset(
            local=remote, shuffle=True, batch_size=4, num_canonical_nodes=1
        )
        loader = module("base.dataloader").StreamingDataLoader(
            dataset, batch_size=4, num_workers=workers, collate_fn=collate, **settings
        )
        return [[(described(batch), loader.state_dict()) for batch in loader] for _ in range(2)]

    mine, theirs = epochs(ours), epochs(reference)
    assert [len(epoch) for epoch in mine] == [len(epoch) for epoch in theirs]
    for my_epoch, their_epoch in zip(mine, theirs):
        for my_batch, their_batch in zip(my_epoch, their_epoch):
            assert my_batch == their_batch


def loader_of(remote, cls=StreamingDataset, workers=2, batch_size=4, **settings):
    dataset = cls(local=remote, shuffle=False, batch_size=batch_size, num_canonical_nodes=1)
    return StreamingDataLoader(dataset, batch_size=batch_size, num_workers=workers, **settings)


def pictures_of(loader):
    """Numbers of samples, all of whose values agree."""
    found = []
    for batch in loader:
        found += numbers_of(batch)
    return found


def numbers_of(batch):
    numbers = batch["number"].tolist()
    assert [set(picture.flatten().tolist()) for picture in batch["picture"]] == [{number} for number in numbers]
    assert batch["long"] == [bytes([number]) * (70_000 + number) for number in numbers]
    return numbers


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_workers_of_all_kinds_pass_slots(remote, context):
    taken = slots_taken(loader_of(remote, multiprocessing_context=context))
    assert len(taken) == 13 and len(set(taken)) < 13, "slots are used again"


def slots_taken(loader, use=lambda batch: None):
    """Places of the slots of an epoch's batches; none for those of torch's queue."""
    taken, numbers, take = [], [], _batches.Slots.take

    def seen(self, place, size, handle):
        taken.append(place)
        return take(self, place, size, handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_batches.Slots, "take", seen)
        for batch in loader:
            numbers += numbers_of(batch)
            use(batch)
            # The loop would keep it while the next one is awaited.
            del batch
    assert sorted(numbers) == list(range(50))
    return taken


@pytest.mark.parametrize(("column", "slots"), [("number", 13), ("picture", 1 + _batches._SLOTS_MORE)])
def test_kept_tensors_keep_their_values_and_large_ones_their_slots(remote, column, slots):
    """Further batches go through torch's queue. Small tensors are copies."""
    loader, kept = loader_of(remote, workers=1, prefetch_factor=1), []
    taken = slots_taken(loader, lambda batch: kept.append(batch[column]))
    assert [int(row.flatten()[0]) for rows in kept for row in rows] == list(range(50))
    assert len(taken) == slots


def test_a_slot_that_a_fork_has_copied_is_not_filled_again(remote):
    """The child sees the batch that its parent has dropped."""
    loader = loader_of(remote, workers=1)
    batches = iter(loader)
    batch = next(batches)
    go, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.read(go[0], 1)
            os.write(done[1], b"y" if numbers_of(batch) == [0, 1, 2, 3] else b"n")
        finally:
            os._exit(0)
    del batch
    assert [number for batch in batches for number in numbers_of(batch)] == list(range(4, 50))
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    assert os.read(done[0], 1) == b"y"
    for fd in (*go, *done):
        os.close(fd)


def test_tensors_that_a_worker_keeps_keep_their_values(remote):
    seen = []

    def keeping(samples):
        batch = default_collate(samples)
        seen.append((batch["picture"], batch["number"].tolist()))
        for pictures, numbers in seen:
            assert [int(picture[0, 0]) for picture in pictures] == numbers
        return batch

    assert pictures_of(loader_of(remote, workers=1, collate_fn=keeping)) == list(range(50))


@pytest.mark.parametrize(("module", "call"), [(os, "posix_fallocate"), (os, "memfd_create"), (_batches, "DupFd")])
def test_memory_or_descriptors_that_run_out_are_torchs_queue(remote, monkeypatch, module, call):
    def exhausted(*_):
        raise OSError(24, "Too many open files")

    loader = loader_of(remote)
    # Its workers are forks.
    monkeypatch.setattr(module, call, exhausted)
    assert slots_taken(loader) == []


class Failing(StreamingDataset):
    def __getitem__(self, at):
        if at == 9:
            raise ValueError(f"sample 9 in worker {get_worker_info().id}")
        return super().__getitem__(at)


def test_an_error_of_a_sample_has_the_workers_traceback(remote):
    loader = loader_of(remote, Failing, workers=2, drop_last=True)
    check_error(loader, ValueError, "(?s)worker process 0.*in __getitem__.*sample 9 in worker 0")


def check_error(loader, kind, match):
    """Ends the workers at once: if the garbage collector finds them, torch waits five seconds for each."""
    batches = loader._get_iterator()
    with pytest.raises(kind, match=match):
        list(batches)
    batches._shutdown_workers()


class Unpicklable(StreamingDataset):
    def __getitem__(self, at):
        return {**super().__getitem__(at), "number": (lambda: 0)}


def test_a_batch_that_cannot_be_pickled_is_an_error(remote):
    check_error(loader_of(remote, Unpicklable, collate_fn=as_they_are), Exception, "(?s)worker process 0.*pickle")


@pytest.mark.parametrize("late", [False, True])
def test_a_killed_worker_is_torchs_error(remote, monkeypatch, late):
    """Also if its connection breaks before its process has ended."""
    batches = loader_of(remote, workers=1)._get_iterator()
    next(batches)
    pid = batches._workers[0].pid
    kill = threading.Timer(0.2, os.kill, (pid, signal.SIGKILL))

    def detach(self):
        kill.start()
        raise ConnectionResetError

    with pytest.raises(RuntimeError, match=rf"^DataLoader worker \(pid(\(s\))? {pid}\) (is killed|exited unexpectedly)"):
        if late:
            monkeypatch.setattr(resource_sharer.DupFd, "detach", detach)
        else:
            os.kill(pid, signal.SIGKILL)
        list(batches)
    # torch's handler raises no second time.
    signal.raise_signal(signal.SIGCHLD)


@pytest.mark.parametrize("persistent", [False, True])
def test_an_epoch_ended_early_and_several_loaders_at_once(remote, persistent):
    loader, second = loader_of(remote, persistent_workers=persistent), loader_of(remote, persistent_workers=persistent)
    for batch in loader:
        numbers_of(batch)
        break
    pairs = list(zip(loader, second))
    assert all(numbers_of(one) == numbers_of(two) for one, two in pairs) and len(pairs) == 13
    del loader, second
    gc.collect()
    assert [numbers_of(one) for one, _ in pairs[:3]] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_memory_is_freed_with_the_last_batch(remote):
    def mapped():
        with open("/proc/self/maps") as lines:
            return sum("memfd:forebay-batch" in line for line in lines)

    gc.collect()
    before = mapped()
    loader = loader_of(remote)
    batches = list(loader)
    assert mapped() > before
    del loader, batches
    gc.collect()
    assert mapped() == before


def test_the_loader_keeps_the_programs_collate_fn(remote):
    loader = loader_of(remote, collate_fn=as_they_are)
    next(iter(loader))
    assert loader.collate_fn is as_they_are
    assert default_collate_fn_map[torch.Tensor] is collate_tensor_fn, "only that of workers is replaced"
