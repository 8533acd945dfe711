"""The documentation: every Python block runs, and the tables name everything that the code has.

A page is README.md or a file of python/docs. Its blocks run in order, in one namespace and in an empty folder with the
data sets that `folder` makes.
"""

import functools
import gzip
import io
import logging
import pathlib
import re
import shutil
import tarfile
import typing

import fake_cuda
import megatron_files
import PIL.Image
import pytest
from litdata.streaming import Cache
from pages import PAGES, ROOT, blocks
from picture_set import CLASSES, jpeg, write_pictures

import forebay as fb
from forebay._choices import StageName

torch = pytest.importorskip("torch")

STAND_INS = {"s3://bucket/": "bucket/", "hf://datasets/": "hub/", "https://host/": "bucket/", '"/data/': '"local/'}
"""Addresses on the pages, and the folders used instead."""

PARQUET = {
    "pictures.parquet": ["hub/uoft-cs/cifar10/plain_text/train-00000-of-00001.parquet"],
    "set-0.parquet": ["hub/Salesforce/wikitext/wikitext-2-raw-v1/train-00000-of-00001.parquet", "bucket/tokens/0.parquet"],
}
"""Files of `tests/data/parquet`, and their paths in the stand-ins."""

EXAMPLES = {"data/pictures": ("get-started", "Write a data set"), "data/text": ("data", "Tokens")}
"""Data sets that several pages read, with the page and the section that write them."""


def name_of(page):
    return page.stem


def write_examples(page):
    """Writes the data sets that `page` names and a different page writes, with that page's code."""
    for name, (stem, section) in EXAMPLES.items():
        if page.stem != stem and f'"{name}"' in page.read_text():
            writer = ROOT / "python" / "docs" / f"{stem}.md"
            start = writer.read_text().split(f"\n## {section}\n")[0].count("\n")
            line, text = next(block for block in blocks(writer) if block[0] > start)
            exec(compile("\n" * line + text, writer.name, "exec"), {"fb": fb})


def run_blocks(page, replaced, names):
    """Runs the blocks of `page` in the namespace `names`, with the addresses in `replaced` exchanged."""
    write_examples(page)
    for line, text in blocks(page):
        for address, stand_in in replaced.items():
            text = text.replace(address, stand_in)
        # A traceback shows the line of the page.
        exec(compile("\n" * line + text, page.name, "exec"), names)


@pytest.fixture(autouse=True)
def log_settings():
    """Restores the loggers' settings, which the page about troubleshooting changes."""
    root, ours = logging.getLogger(), logging.getLogger("forebay")
    levels, handlers = (root.level, ours.level), root.handlers[:]
    yield
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    root.handlers[:] = handlers


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with the reader's data: `bucket` for a store, JPEG files, tar files, Megatron's, and LitData's chunks."""
    monkeypatch.chdir(tmp_path)
    write_pictures("bucket/imagenet/train", samples=96, compression="zstd")
    write_pictures("bucket/imagenet/val", samples=40, compression="zstd")
    pathlib.Path("jpegs").mkdir()
    for number in range(20):
        pathlib.Path(f"jpegs/{number}.jpg").write_bytes(jpeg(number))
        with tarfile.open(f"train-000{number % 2}.tar", "a") as tar:
            tar.add(f"jpegs/{number}.jpg", f"{number:04}.jpg")
            label = tarfile.TarInfo(f"{number:04}.cls")
            label.size = 1
            tar.addfile(label, io.BytesIO(b"%d" % (number % CLASSES)))
            if number % 3:
                caption = tarfile.TarInfo(f"{number:04}.json")
                caption.size = 18
                tar.addfile(caption, io.BytesIO(b'{"caption": "%03d"}' % number))
    for seed, name in enumerate(["corpus", "a", "b"]):
        pathlib.Path("data").mkdir(exist_ok=True)
        megatron_files.write(f"data/{name}_text_document", megatron_files.random_documents(seed, 200))
    write_litdata("bucket/optimized")
    for file, places in PARQUET.items():
        for place in places:
            pathlib.Path(place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "tests/data/parquet" / file, place)
    for path in (ROOT / "tests" / "data" / "tfrecord").glob("set.*"):
        shutil.copy(path, path.name.replace("set", "bucket/train"))
    for path in (ROOT / "tests" / "data" / "array_record").glob("set.*"):
        pathlib.Path(path.stem.replace("set", "bucket/train")).write_bytes(gzip.decompress(path.read_bytes()))
    return tmp_path


def write_litdata(folder):
    pathlib.Path(folder).mkdir(parents=True)
    chunks = Cache(folder, chunk_size=8)
    for number in range(20):
        picture = PIL.Image.open(f"jpegs/{number}.jpg")
        chunks._add_item(number, {"image": picture, "class": number % CLASSES, "meta": {"box": torch.arange(4)}})
    chunks.done()
    chunks.merge()


@pytest.fixture
def names():
    """Names that the pages use without a definition: the reader's network, files and training step."""
    layers = torch.nn.Conv2d(3, CLASSES, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    network = torch.nn.Sequential(*layers)
    return {
        "__name__": "__main__",
        "files": [(f"jpegs/{number}.jpg", number % CLASSES) for number in range(20)],
        "network": network,
        "train_step": lambda pictures, labels: torch.nn.functional.cross_entropy(network(pictures), labels).backward(),
    }


@pytest.fixture
def page(request, monkeypatch):
    """Page of the documentation; the one about GPUs runs with the stand-in for the CUDA driver."""
    if request.param.stem == "gpu":
        library = request.getfixturevalue("cuda_library")
        monkeypatch.setenv("FOREBAY_CUDA_LIBRARY", str(library))
        # torch has no device for the stand-in.
        monkeypatch.setattr(fb, "Engine", functools.partial(fb.Engine, memory="64mb"))
        monkeypatch.setattr(fb, "Loader", functools.partial(fb.Loader, framework="dlpack", engine=fb.Engine()))
        driver = fake_cuda.Driver(library)
        driver.waits_move(True)
        request.addfinalizer(lambda: driver.waits_move(False))
    return request.param


@pytest.mark.parametrize("page", [page for page in PAGES if list(blocks(page))], ids=name_of, indirect=True)
def test_every_block_of_the_page_runs(page, folder, names):
    run_blocks(page, STAND_INS, names)


def test_a_page_names_the_source_of_the_data_that_a_different_page_writes():
    for page in PAGES:
        for name, (stem, section) in EXAMPLES.items():
            if page.stem != stem and f'"{name}"' in page.read_text():
                assert f"({stem}.md#{section.lower().replace(' ', '-')})" in page.read_text(), f"{page.name}: {name}"


def test_a_page_states_that_the_training_step_is_the_reader_s():
    calls = re.compile(r"^ +train_step\(", re.M)
    own = {page.name for page in PAGES if any("def train_step(" in text for _, text in blocks(page))}
    using = {page.name: page.read_text() for page in PAGES if any(calls.search(text) for _, text in blocks(page))}
    assert len(using) > 8
    assert {name for name, text in using.items() if name not in own and not re.search("`train_step`|# your training step", text)} == set()


def test_no_bullet_is_broken():
    assert [page.name for page in PAGES if re.search(r"^ *\*\* ", page.read_text(), re.M)] == []


def test_the_readme_shows_how_to_write_and_how_to_load():
    shown = "".join(text for _, text in blocks(ROOT / "README.md"))
    assert "fb.MDSWriter(" in shown and "fb.Loader(" in shown and "load_state_dict" in shown


def sources(*folders, kinds=("rs", "py")):
    """The text of a folder's files."""
    return [file.read_text() for folder in folders for kind in kinds for file in sorted((ROOT / folder).rglob(f"*.{kind}"))]


def rows(section):
    """The names in the first column of the table under `section` of the page about metrics."""
    _, text = (ROOT / "python" / "docs" / "metrics.md").read_text().split(f"\n## {section}\n")
    return re.findall(r"^\| `(\w+)` \|", text.partition("\n## ")[0], re.M)


@pytest.mark.parametrize(("section", "method"), [("Stages", "stage"), ("Counters", "counter")])
def test_the_page_about_metrics_has_every_stage_and_counter(section, method):
    named = [name for text in sources("loader", "gpu/src") for name in re.findall(rf'\.{method}\(\s*"(\w+)"', text)]
    documented = rows(section)
    assert sorted(documented) == sorted(set(named))


def test_the_stages_on_the_page_are_in_the_order_of_stats(folder):
    with fb.Loader(remote="bucket/imagenet/val", batch_size=8) as loader:
        assert list(loader.stats()["stages"]) == rows("Stages") == list(typing.get_args(StageName))


def test_the_page_about_the_environment_has_every_variable():
    page = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", (ROOT / "python" / "docs" / "environment.md").read_text()))
    constants = [re.findall(r'VARIABLE: &str =\s*"(FOREBAY_\w+)"', text) for text in sources("loader", "gpu/src")]
    of_forebay = {name for names in constants for name in names}
    settings = sorted((ROOT / "loader/store/src").glob("*/settings.rs"))
    production = [file.read_text().split("#[cfg(test)]")[0] for file in settings]
    of_stores = {name for text in production for name in re.findall(r'"([A-Z][A-Z0-9]*_[A-Z0-9_]+)"', text)}
    launchers = r'"((?:\w+_)?(?:RANK|WORLD_SIZE|SIZE|LOCALRANKID|LOCALNRANKS|TASKS|PROCID|NTASKS|NODE|LOCALID|STEP_ID|NODEID))"'
    of_launchers = set(re.findall(launchers, (ROOT / "python/py_src/forebay/_world.py").read_text()))
    of_python = {name for text in sources("python/py_src") for name in re.findall(r'environ(?:\.get\(|\[)"(\w+)"', text)}
    assert len(of_forebay) >= 4 and len(of_stores) > 25 and len(of_launchers) > 15 and len(of_python) > 8
    assert of_forebay | of_stores | of_launchers | of_python <= page


def test_paths_and_links_in_the_texts_exist():
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"(?<![\w/.-])((?:loader|gpu|ffi|python|bench|tests)/[\w./-]*\w)", contributing)
    made = {"tests/fuzz/artifacts"}
    # NAME is the part that a developer adds.
    fixed = [path for path in named if path not in made and "NAME" not in path]
    assert [path for path in fixed if not (ROOT / path).exists()] == []
    for file in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "bench" / "README.md"):
        for link in re.findall(r"\]\(([^)#]+)", file.read_text()):
            assert link.startswith("https://") or (file.parent / link).exists(), f"{file.name}: {link}"


def test_the_messages_in_troubleshooting_are_messages_of_the_code():
    page = (ROOT / "python" / "docs" / "troubleshooting.md").read_text()
    code = "".join(sources("loader", "gpu/src", "python/py_src")).replace("`", "")
    code = re.sub(r'\\\n\s*|"\s*\n\s*f?"', "", code)
    quoted = [message for message in re.findall(r"^\*\*`([^`]+)`", page, re.M) if " " in message]
    assert len(quoted) >= 5
    for message in quoted:
        for part in filter(None, map(str.strip, message.split("..."))):
            assert part in code, message


def test_troubleshooting_has_every_error():
    page = (ROOT / "python" / "docs" / "troubleshooting.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.M)) == sorted(set(fb.errors.__all__) - {"Error"})
