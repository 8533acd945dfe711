"""Folders of files, each of which is a sample."""

import itertools

import pytest
from source_matrix import Case, SourceMatrix, opened

import forebay as fb

FIELDS = {"path": fb.Text("path"), "file": fb.Bytes("file")}

FILES = {f"{n % 3}/{n:04}.{'jpg' if n % 2 else 'png'}": bytes([n % 251]) * (n * 37 % 4000) for n in range(1120)}

_prefixes = itertools.count()


def rows(batch):
    return list(zip(batch["path"], map(bytes, batch["file"]), strict=True))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(content)
    return root


class TestSampleFiles(SourceMatrix):
    CACHE_LIMIT = 3_000_000

    @pytest.fixture
    def case(self, folder, bucket):
        prefix = f"files-{next(_prefixes)}"
        bucket.objects.update({f"{prefix}/{name}": content for name, content in FILES.items()})
        names = "/*/*.jpg::{0}/*/*.png"
        return Case(
            remote=str(folder) + names.format(folder),
            stored=f"s3://bucket/{prefix}" + names.format(f"s3://bucket/{prefix}"),
            options={"fields": FIELDS},
            rows=rows,
            samples=sorted((item for item in FILES.items() if item[0].endswith("jpg")))
            + sorted((item for item in FILES.items() if item[0].endswith("png"))),
            object_suffix="g",
        )

    def test_an_absent_file_is_named(self, case, folder, tmp_path):
        (tmp_path / "one").mkdir()
        (tmp_path / "one" / "0.jpg").write_bytes(b"0")
        with pytest.raises(FileNotFoundError, match="1.jpg"):
            opened(case, f"{tmp_path}/one/{{0,1}}.jpg")
