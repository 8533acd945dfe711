"""`forebay info` and `forebay preview`: their output in terminals of 80 and 200 columns, as JSON and as a page."""

import html.parser
import io
import json
import re
import struct
import tempfile
import zlib
from base64 import b64decode

import numpy as np
import pytest
from terminals import compared, shown

import forebay as fb
from forebay.__main__ import main
from forebay.streaming import MDSWriter

COLOURS = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
COUNT = 6


def pixels(number, height=12, width=16):
    rows, columns = np.mgrid[0:height, 0:width]
    return np.stack([columns * 15, rows * 20, np.full_like(rows, number * 40)], -1).astype(np.uint8)


def picture(number):
    """A file of a size that depends on no library."""
    array = pixels(number)
    return b"P6 %d %d 255\n" % (array.shape[1], array.shape[0]) + array.tobytes()


def grey_png(array):
    """A PNG of one channel, not compressed, so that its size depends on no library."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width = array.shape
    lines = b"".join(b"\0" + row.tobytes() for row in array)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 0)) + chunk(b"IEND", b"")


def mask(number):
    labels = np.zeros((12, 16), np.uint8)
    labels[3:6, 4:8] = number + 1
    return labels


@pytest.fixture(scope="module")
def set_of_pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures") / "set"
    columns = {"photo": "bytes", "mask": "png", "boxes": "ndarray:float32", "label": "int", "text": "str"}
    with MDSWriter(out=str(folder), columns=columns, hashes=["sha1"]) as out:
        for number in range(COUNT):
            boxes = np.array([[4, 3, 8, 6]], np.float32)
            text = f"Text {number}\x1b[31m\nwith 猫 and <b>tags</b>."
            out.write({"photo": picture(number), "mask": grey_png(mask(number)), "boxes": boxes, "label": number, "text": text})
    return folder


@pytest.fixture(scope="module")
def set_of_texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts") / "set"
    with MDSWriter(out=str(folder), columns={"id": "int", "text": "str"}) as out:
        for number in range(40):
            out.write({"id": number, "text": "a few words " * (1 + number % 9)})
    return folder


def in_terminal(arguments, columns, **environment):
    """Returns the exit code, the output and the errors of the command in a terminal that shows its output."""
    settings = ("NO_COLOR", "COLORTERM", "TMUX", "TERM_PROGRAM", "STY")
    with tempfile.TemporaryFile() as errors:
        exit_code, found = shown(*arguments, columns=columns, rows=40, stderr=errors, without=settings, **environment)
        errors.seek(0)
        return exit_code, found, errors.read().decode()


FORMS = {
    "80": (80, {"TERM": "xterm", "NO_COLOR": "1"}),
    "200": (200, {"TERM": "xterm", "NO_COLOR": "1"}),
    "dumb": (80, {"TERM": "dumb"}),
    "colours": (80, COLOURS),
    "256": (80, {"TERM": "xterm-256color"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", ["info", "preview"])
def test_the_output_fits_its_terminal(set_of_pictures, command, form):
    columns, environment = FORMS[form]
    exit_code, found, errors = in_terminal([command, set_of_pictures], columns, **environment)
    assert (exit_code, errors) == (0, "")
    found = found.replace(str(set_of_pictures), "/set")
    compared(f"{command}-{form}", found)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", found)
    assert "\x1b" not in plain
    table = plain.split("\n\n", 1)[-1] if command == "info" else plain
    assert max(map(len, table.splitlines())) <= columns
    if form not in ("colours", "256"):
        assert plain == found


def printed(capfd, *arguments):
    """Returns the exit code and the JSON objects that the command prints."""
    exit_code = main([*map(str, arguments), "--json"])
    return exit_code, [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_info_describes_the_data_set(set_of_pictures, capfd):
    exit_code, [found] = printed(capfd, "info", set_of_pictures)
    assert exit_code == 0
    assert {name: found[name] for name in ("format", "samples", "shards", "hashes", "in_place")} == {
        "format": "mds", "samples": COUNT, "shards": 1, "hashes": ["sha1"], "in_place": True,
    }  # fmt: skip
    columns = {column["name"]: column for column in found["columns"]}
    assert columns["photo"]["pictures"]["formats"] == {"pnm": COUNT}
    assert columns["photo"]["pictures"]["width"]["max"] == 16 and columns["mask"]["pictures"]["height"]["min"] == 12
    assert columns["label"]["numbers"] == {"min": 0.0, "max": COUNT - 1.0}
    assert columns["text"]["lengths"]["unit"] == "character" and columns["boxes"]["lengths"]["max"] == 4
    assert found["read"]["samples"] == COUNT and found["read"]["damaged"] == []
    assert found["epoch"]["samples"] == COUNT and found["epoch"]["decoded_bytes"] > 2 * 12 * 16 * 3 * COUNT


def test_no_sample_is_read_for_none(set_of_texts, capfd):
    exit_code, [found] = printed(capfd, "info", set_of_texts, "--samples", 0)
    assert exit_code == 0 and found["read"]["samples"] == 0 and found["epoch"]["decoded_bytes"] is None
    assert [column["name"] for column in found["columns"]] == ["id", "text"]


def test_one_wrong_address_of_several_is_named(set_of_texts, tmp_path, capfd):
    exit_code, found = printed(capfd, "info", tmp_path / "none", set_of_texts)
    assert exit_code == 1
    assert found[0]["error"] == "not found" and "none" in found[0]["message"] and found[1]["samples"] == 40


def test_few_shards_of_a_store_are_fetched(tmp_path, bucket, bucket_environment, capfd):
    folder = tmp_path / "shards"
    with MDSWriter(out=str(folder), columns={"text": "str"}, size_limit=400) as out:
        for number in range(100):
            out.write({"text": f"text {number} " * 10})
    for path in folder.iterdir():
        bucket.objects[f"eyes/{path.name}"] = path.read_bytes()
    shards = len(list(folder.glob("*.mds")))
    for limit, fetched in [("1kb", 3), ("1", 1), ("1mb", shards)]:
        bucket.seen.clear()
        local = tmp_path / f"local {limit}"
        exit_code, [found] = printed(capfd, "info", "s3://bucket/eyes", "--local", local, "--fetch", limit)
        assert exit_code == 0 and found["url"] == "s3://bucket/eyes" and not found["in_place"]
        assert found["epoch"]["fetched_bytes"] == found["stored_bytes"] == sum(path.stat().st_size for path in folder.glob("*.mds"))
        keys = {request.key for request in bucket.seen if request.method == "GET" and request.key.endswith(".mds")}
        assert len(keys) == fetched and found["read"]["samples"] > 0


def test_preview_has_the_values(set_of_pictures, capfd):
    exit_code, found = printed(capfd, "preview", set_of_pictures, "--start", 2, "--count", 2, "--columns", "photo,label")
    assert exit_code == 0
    photo = {"format": "pnm", "width": 16, "height": 12, "bytes": len(picture(0))}
    assert found == [{"sample": n, "shard": 0, "index": n, "columns": {"label": n, "photo": photo}} for n in (2, 3)]


def test_a_seed_shows_the_same_random_samples(set_of_texts, capfd):
    first, again, other = (printed(capfd, "preview", set_of_texts, "--shuffle", seed) for seed in (1, 1, 2))
    numbers = [row["sample"] for row in first[1]]
    assert first == again and numbers != [row["sample"] for row in other[1]]
    assert len(set(numbers)) == 8 and numbers != sorted(numbers)


def test_damaged_samples_are_rows(tmp_path, capfd):
    folder = tmp_path / "set"
    with MDSWriter(out=str(folder), columns={"photo": "png", "id": "int"}) as out:
        for number in range(3):
            whole = grey_png(mask(number))
            out.write({"photo": whole[:-40] if number == 1 else whole, "id": number})
    exit_code, found = printed(capfd, "preview", folder)
    assert exit_code == 1
    assert "error" in found[1]["columns"]["photo"] and found[1]["columns"]["id"] == 1
    assert found[2]["columns"]["photo"]["format"] == "png"
    assert main(["preview", str(folder)]) == 1
    assert "sample 1, shard 0, index 1: damaged: the PNG" in capfd.readouterr().out
    (folder / "shard.00000.mds").write_bytes(b"")
    exit_code, found = printed(capfd, "preview", folder)
    assert exit_code in (1, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--start", "40"], "after the last sample"),
        (["--columns", "texts"], "no sample has the column `texts`: there are id, text"),
        (["--boxes", "box"], "no sample has the column `box`"),
    ],
)
def test_wrong_arguments_are_named(set_of_texts, capfd, arguments, message):
    assert main(["preview", str(set_of_texts), *arguments]) == 2
    assert message in capfd.readouterr().err


class Page(html.parser.HTMLParser):
    """Elements of a page: its pictures and the text of its cards."""

    def __init__(self, text):
        super().__init__()
        self.open, self.pictures, self.texts, self.addresses = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.addresses += [attributes[name] for name in ("src", "href") if name in attributes]
        if tag == "img":
            self.pictures.append((attributes["alt"], b64decode(attributes["src"].split(",")[1])))
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "dd":
            self.texts.append(data)


def shown_pixels(file):
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))


def test_a_page_has_everything_in_it(set_of_pictures, tmp_path, capfd):
    path = tmp_path / "page.html"
    assert main(["preview", str(set_of_pictures), "--html", str(path), "--count", "3"]) == 0
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert [name for name, _ in page.pictures] == ["mask", "photo"] * 3
    assert all(address.startswith("data:image/") for address in page.addresses) and "http:" not in text and "https:" not in text
    assert "prefers-color-scheme: dark" in text and "width=device-width" in text
    assert any("<b>tags</b>" in text for text in page.texts), "it is text"
    photo, labels = shown_pixels(page.pictures[3][1]).copy(), shown_pixels(page.pictures[2][1])
    edges = np.zeros((12, 16), bool)
    edges[3:7, 4:9] = True
    edges[4:6, 5:8] = False
    assert (photo[edges] == [255, 64, 64]).all(), "a box of xyxy"
    assert (photo[~edges] == pixels(1)[~edges]).all()
    assert (labels[mask(1) == 0] == 0).all() and (labels[mask(1) == 2] == [0, 128, 0]).all(), "the palette"


def test_boxes_are_of_the_picture_that_they_are_drawn_in(tmp_path):
    with MDSWriter(out=str(tmp_path / "set"), columns={"mask": "png", "photo": "bytes", "boxes": "ndarray:float32"}) as out:
        small = mask(0)[::2, ::2].copy()
        out.write({"mask": grey_png(small), "photo": picture(0), "boxes": np.array([[4, 3, 8, 6]], np.float32)})
    path = tmp_path / "page.html"
    assert main(["preview", str(tmp_path / "set"), "--html", str(path)]) == 0
    (_, _), (_, photo) = Page(path.read_text(encoding="utf-8")).pictures
    rows, columns = np.nonzero((shown_pixels(photo) == [255, 64, 64]).all(-1))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (3, 6, 4, 8)


def test_many_columns_are_lines(tmp_path, capfd):
    names = [f"column_{number:02}" for number in range(30)]
    with MDSWriter(out=str(tmp_path / "set"), columns=dict.fromkeys(names, "int")) as out:
        out.write(dict.fromkeys(names, 7))
    assert main(["preview", str(tmp_path / "set")]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "sample 0, shard 0, index 0" and lines[1:31] == [f"  {name}  7" for name in names]


@pytest.mark.parametrize(("graphics", "start"), [("kitty", "\x1b_Ga=T,f=100"), ("iterm", "\x1b]1337;File=inline=1"), ("sixel", "\x1bPq")])
def test_a_protocol_draws_each_picture(set_of_pictures, capfd, graphics, start):
    assert main(["preview", str(set_of_pictures), "--graphics", graphics, "--count", "2"]) == 0
    assert capfd.readouterr().out.count(start) == 4


def test_a_step_of_a_run_is_shown_as_it_was(set_of_pictures, tmp_path, capfd):
    crop = fb.RandomResizedCrop(8)
    norm = fb.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.25])
    joint = fb.Joint(photo=fb.Image("photo", crop, norm, dtype="float32"), mask=fb.Mask("mask", crop), boxes=fb.Boxes("boxes"))
    fields = {"both": joint, "label": fb.Scalar("label"), "text": fb.Text("text")}
    seen = {}
    for rank in range(2):
        world = fb.World(rank=rank, world_size=2, local_rank=rank, local_world_size=2)
        with fb.Loader(
            remote=set_of_pictures, batch_size=1, fields=fields, shuffle=True, seed=5, framework="numpy", world=world
        ) as loader:
            for epoch in range(2):
                for step, batch in enumerate(loader):
                    seen[rank, 3 * epoch + step] = batch
            if rank == 0:
                loader.save_run(tmp_path / "run.json")
    for (rank, step), batch in seen.items():
        place = ["--run", tmp_path / "run.json", "--step", step, "--rank", rank]
        exit_code, [row] = printed(capfd, "preview", *place)
        assert exit_code == 0
        assert (row["columns"]["label"], row["columns"]["text"]) == (batch["label"][0], batch["text"][0])
        page = tmp_path / "page.html"
        assert main(["preview", *map(str, place), "--html", str(page)]) == 0
        pictures = dict(Page(page.read_text(encoding="utf-8")).pictures)
        expected = (batch["photo"][0].transpose(1, 2, 0) * [0.2, 0.3, 0.25] + [0.5, 0.4, 0.3]) * 255
        found = shown_pixels(pictures["photo"])
        # The boxes are drawn over it.
        is_drawn = (found == [255, 64, 64]).all(-1)
        assert np.abs(found - expected)[~is_drawn].max() <= 0.51
        assert ((shown_pixels(pictures["mask"]) == 0).all(-1) == (batch["mask"][0] == 0)).all()
        capfd.readouterr()
    exit_code, rows = printed(capfd, "preview", "--run", tmp_path / "run.json", "--step", 5)
    assert exit_code == 0 and [(row["rank"], row["row"]) for row in rows] == [(0, 0), (1, 0)]
    assert [row["columns"]["text"] for row in rows] == [seen[rank, 5]["text"][0] for rank in range(2)]
    assert main(["preview", "--run", str(tmp_path / "run.json"), "--step", "0", "--rank", "2"]) == 2
    assert "no such rank (rank 2, ranks 2" in capfd.readouterr().err
    _, again = printed(capfd, "preview", *place, "--remote", set_of_pictures)
    assert again == [row]
    _, again = printed(capfd, "preview", set_of_pictures, *place)
    assert again == [row]
    assert main(["preview", *map(str, place), "--remote", "a", "--remote", "b"]) == 2
    assert "once for each stream" in capfd.readouterr().err
    (tmp_path / "run.json").write_text("{}")
    assert main(["preview", "--run", str(tmp_path / "run.json"), "--step", "0"]) == 2
    assert "Loader.save_run" in capfd.readouterr().err
