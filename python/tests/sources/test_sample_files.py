"""Folders of files; each file is a sample."""

import itertools

import pytest
from source_matrix import Case, SourceMatrix, opened

import forebay as fb

FIELDS = {"path": fb.Text("path"), "file": fb.Bytes("file"), "class": fb.Text("class"), "label": fb.Scalar("label")}

FILES = {f"{n % 3}/{n:04}.{'jpg' if n % 2 else 'png'}": bytes([n % 251]) * (n * 37 % 4000) for n in range(1120)}

_prefixes = itertools.count()


def rows(batch):
    labels = map(int, batch["label"])
    return list(zip(batch["path"], map(bytes, batch["file"]), batch["class"], labels, strict=True))


def dealt(samples, hands):
    """The samples in the order of their shards."""
    return [sample for hand in range(hands) for sample in samples[hand::hands]]


def sample(path):
    return path, FILES[path], path[0], int(path[0])


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(content)
    return root


class FilesMatrix(SourceMatrix):
    CACHE_LIMIT = 3_000_000
    NAMES = ""
    HANDS = 2

    def paths(self):
        return sorted(FILES)

    @pytest.fixture
    def case(self, folder, bucket):
        prefix = f"files-{next(_prefixes)}"
        bucket.objects.update({f"{prefix}/{name}": content for name, content in FILES.items()})
        return Case(
            remote="::".join(f"{folder}{name}" for name in self.NAMES.split("::")),
            stored="::".join(f"s3://bucket/{prefix}{name}" for name in self.NAMES.split("::")),
            options={"fields": FIELDS},
            rows=rows,
            samples=dealt([sample(path) for path in self.paths()], self.HANDS),
            object_suffix="g",
        )

    def test_a_copy_of_the_files_has_the_same_state(self, case, bucket_environment, tmp_path):
        with opened(case, shuffle=True) as loader:
            taken = iter(loader)
            next(taken)
            state = loader.state_dict()
        with opened(case, case.stored, local=tmp_path / "local", shuffle=True) as loader:
            loader.load_state_dict(state)


class TestFolder(FilesMatrix):
    """A folder without names."""


class TestPatterns(FilesMatrix):
    """Lists of patterns."""

    NAMES = "/*/*.jpg::/**/*.png"

    def paths(self):
        return [path for end in ("jpg", "png") for path in sorted(FILES) if path.endswith(end)]
