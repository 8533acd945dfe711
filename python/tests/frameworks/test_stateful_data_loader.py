"""Files, lines, tars and streams in torchdata's StatefulDataLoader: each is returned once, wherever it is stopped and continued."""

import io
import tarfile

import pytest

import forebay as fb
from forebay.streaming import MDSWriter, StreamingDataset

stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader


@pytest.fixture
def folder(tmp_path):
    """Folder with texts and tars of very different sizes, so that some workers have returned all before the rest."""
    for number, count in enumerate([1, 0, 40, 7, 3]):
        (tmp_path / f"{number}.txt").write_text("".join(f"{number} {line}\n" for line in range(count)))
        with tarfile.open(tmp_path / f"{number}.tar", "w") as tar:
            for member in range(count):
                info = tarfile.TarInfo(f"{number}/{member}")
                info.size = member
                tar.addfile(info, io.BytesIO(bytes(member)))
    return tmp_path


def loaders(folder):
    yield "files", lambda: fb.load_files(fb.list_files(f"{folder}/", masks="*.txt"), shuffle=True)
    yield "lines", lambda: fb.load_lines(fb.list_files(f"{folder}/", masks="*.txt"), shuffle=True)
    yield "tars", lambda: fb.load_tars(fb.list_files(f"{folder}/", masks="*.tar"))
    yield "all lines", lambda: fb.load_lines(fb.list_files(f"{folder}/", masks="*.txt"), shard="none")


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_every_item_is_returned_once(folder, workers):
    for name, make in loaders(folder):

        def loader(make=make, persistent=False):
            keeps = persistent and workers > 0
            return stateful(make(), batch_size=4, num_workers=workers, collate_fn=list, persistent_workers=keeps)

        batches = list(loader())
        whole = [item for batch in batches for item in batch]
        # Also after the last batch, before its consumer has seen the end.
        for count in {0, 1, 2, len(batches) // 2, len(batches) - 2, len(batches) - 1, len(batches)}:
            first = loader()
            seen = [item for _, batch in zip(range(count), first) for item in batch]
            second = loader(persistent=True)
            second.load_state_dict(first.state_dict())
            rest = [item for batch in second for item in batch]
            assert seen + rest == whole, (name, count)
            # The next loop has all of them again.
            assert len([item for batch in second for item in batch]) == len(whole), (name, count)
        first = loader()
        assert [item for batch in first for item in batch] == whole
        second = loader()
        second.load_state_dict(first.state_dict())
        # The state is the state of the end of the epoch.
        assert len([item for batch in second for item in batch]) == len(whole), name


@pytest.mark.parametrize(("workers", "options"), [(0, {}), (2, {}), (2, {"persistent_workers": True}), (2, {"snapshot_every_n_steps": 3})])
@pytest.mark.parametrize("is_engines", [True, False])
def test_a_streaming_data_set_continues_after_every_batch(tmp_path, workers, options, is_engines):
    with MDSWriter(out=str(tmp_path), columns={"x": "int"}, size_limit=200) as writer:
        for number in range(53):
            writer.write({"x": number})

    def loader():
        data = (StreamingDataset if is_engines else PreparedInPython)(local=str(tmp_path), shuffle=True, batch_size=4)
        return stateful(data, batch_size=4, num_workers=workers, **options)

    def epoch(loader):
        return [batch["x"].tolist() for batch in loader]

    first, states = loader(), []
    epochs = [[], []]
    for batch in first:
        epochs[0].append(batch["x"].tolist())
        states.append((len(epochs[0]), first.state_dict()))
    ended = first.state_dict()
    epochs[1] = epoch(first)
    assert sorted(set(sum(epochs[0], []))) == list(range(53))
    assert epochs[1] != epochs[0]
    for number, state in states[:: 1 if workers == 0 else 4]:
        resumed = loader()
        resumed.load_state_dict(state)
        assert epoch(resumed) == epochs[0][number:], number
        assert epoch(resumed) == epochs[1], number
    resumed = loader()
    resumed.load_state_dict(ended)
    assert epoch(resumed) == epochs[1]


def test_the_state_of_a_process_takes_all_arguments_or_none(tmp_path):
    with MDSWriter(out=str(tmp_path), columns={"x": "int"}) as writer:
        for number in range(8):
            writer.write({"x": number})
    data = StreamingDataset(local=str(tmp_path), batch_size=1)
    samples = iter(data)
    for _ in range(3):
        next(samples)
    with pytest.raises(TypeError, match="num_samples and from_beginning"):
        data.state_dict(3)
    state = data.state_dict()
    assert state == {**data.state_dict(0, True), "worker": {"samples": 3, "is_ended": False}}
    resumed = StreamingDataset(local=str(tmp_path), batch_size=1)
    resumed.load_state_dict(state)
    assert [sample["x"] for sample in resumed] == list(range(3, 8))
    assert [sample["x"] for sample in resumed] == list(range(8))


class PreparedInPython(StreamingDataset):
    """A data set that is iterated in Python, because it replaces a function."""

    def prepare_shard(self, shard_id, blocking=True):
        return super().prepare_shard(shard_id, blocking)
