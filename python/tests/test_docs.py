"""The documentation: every Python block runs, and the tables name everything that the code has.

A page is README.md or a file of python/docs. Its blocks run in order, in one namespace and in an empty folder with the
data sets that `folder` makes. A comment `<!-- setup ... -->` on a page holds Python that runs and is not shown.
"""

import pathlib
import re

import fake_cuda
import numpy as np
import pytest
from picture_set import CLASSES, jpeg, write_pictures

import forebay as fb

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "python" / "docs").glob("*.md"))]
STAND_INS = {"s3://bucket/": "bucket/", "https://host/": "bucket/", '"/data/': '"local/'}
"""Addresses on the pages, and the folders used in their place."""

LANGUAGES = {"python", "sh", "text", "json"}

PARTS = re.compile(r"^<!-- setup\n(.*?)^-->$|^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.M | re.S)
"""Hidden setups and code blocks."""


def name_of(page):
    return page.stem


def blocks(page):
    """The Python of a page: line and text, in order."""
    text = page.read_text()
    for part in PARTS.finditer(text):
        setup, language, shown = part.groups()
        if setup is None and language != "python":
            assert language in LANGUAGES, f"{page.name}: a block of the language {language!r} is not run: name it, or add it"
            continue
        start = part.start(1 if setup is not None else 3)
        yield text.count("\n", 0, start), setup if setup is not None else shown


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with the data sets that the pages name: `data` by path, `bucket` for a store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_pictures("bucket/imagenet/train", samples=96, compression="zstd")
    write_pictures("bucket/imagenet/val", samples=40, compression="zstd")
    write_pictures("data/pictures", samples=96)
    rng = np.random.default_rng(0)
    with fb.MDSWriter(out="data/tokens", columns={"tokens": "ndarray:uint16:128"}) as writer:
        for _ in range(64):
            writer.write({"tokens": rng.integers(0, 1000, 128, dtype=np.uint16)})
    pathlib.Path("jpegs").mkdir()
    for number in range(20):
        pathlib.Path(f"jpegs/{number}.jpg").write_bytes(jpeg(number))
    return tmp_path


@pytest.fixture
def names():
    """The names that the pages use without a definition: the reader's own model, data and training step."""
    network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, CLASSES))

    def model(pictures):
        return network(pictures.float())

    return {
        "__name__": "__main__",
        "files": [(f"jpegs/{number}.jpg", number % CLASSES) for number in range(20)],
        "model": model,
        "network": network,
        "train_step": lambda pictures, labels: torch.nn.functional.cross_entropy(model(pictures), labels).backward(),
    }


@pytest.fixture
def page(request, monkeypatch):
    """The page; the one about GPUs has the stand-in for the CUDA driver."""
    if request.param.stem == "gpu":
        library = request.getfixturevalue("cuda_library")
        monkeypatch.setenv("FOREBAY_CUDA_LIBRARY", str(library))
        driver = fake_cuda.Driver(library)
        driver.waits_move(True)
        request.addfinalizer(lambda: driver.waits_move(False))
    return request.param


@pytest.mark.parametrize("page", [page for page in PAGES if list(blocks(page))], ids=name_of, indirect=True)
def test_every_block_of_the_page_runs(page, folder, names):
    for line, text in blocks(page):
        for address, stand_in in STAND_INS.items():
            text = text.replace(address, stand_in)
        # A traceback shows the line of the page.
        indent = len(text) - len(text.lstrip(" "))
        code = re.sub(rf"^ {{{indent}}}", "", text, flags=re.M)
        exec(compile("\n" * line + code, page.name, "exec"), names)


def test_the_readme_shows_how_to_write_and_how_to_load():
    shown = "".join(text for _, text in blocks(ROOT / "README.md"))
    assert "fb.MDSWriter(" in shown and "fb.Loader(" in shown and "load_state_dict" in shown
