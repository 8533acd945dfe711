"""Files, lines and tars in torchdata's StatefulDataLoader: each is returned once, wherever it is stopped and continued."""

import io
import tarfile

import pytest

import forebay as fb

stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader


@pytest.fixture
def folder(tmp_path):
    """Folder with texts and tars of very different sizes, so that some workers have returned all before others."""
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
        # The state is that of the end of the epoch.
        assert len([item for batch in second for item in batch]) == len(whole), name
