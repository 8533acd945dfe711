"""BMP, GIF, PBM, PGM, PPM and TIFF files, against Pillow."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

import forebay as fb

RNG = np.random.default_rng(21)
RGBA = Image.fromarray(RNG.integers(0, 256, (19, 33, 4), dtype=np.uint8), "RGBA")
RGB, GREY = RGBA.convert("RGB"), RGBA.convert("L")
BITS = GREY.convert("1")
PALETTE, SMALL = RGB.quantize(200), RGB.quantize(11)


def saved(picture, form, **options):
    out = io.BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()


def bitmap(bits, masks=(), header=40, from_top=False, data=None):
    """Returns a BMP of 16 or 32 bits with any masks."""
    stride = (33 * bits + 31) // 32 * 4
    data = data or RNG.integers(0, 256, stride * 19, dtype=np.uint8).tobytes()
    body = struct.pack("<iiHHIIiiII", 33, -19 if from_top else 19, 1, bits, 3 if masks else 0, 0, 0, 0, 0, 0)
    body += struct.pack(f"<{len(masks)}I", *masks)
    body = body.ljust(header - 4, b"\0") if header > 40 else body
    head = struct.pack("<I", header) + body
    return b"BM" + struct.pack("<IHHI", 14 + len(head) + len(data), 0, 0, 14 + len(head)) + head + data


def old_bitmap():
    """Returns a BMP with the shortest header, and a palette that is shorter than its numbers need."""
    data = RNG.integers(0, 256, 36 * 19, dtype=np.uint8).tobytes()
    palette = RNG.integers(0, 256, 3 * 256, dtype=np.uint8).tobytes()
    head = struct.pack("<IHHHH", 12, 33, 19, 1, 8) + palette
    return b"BM" + struct.pack("<IHHI", 14 + len(head) + len(data), 0, 0, 14 + len(head)) + head + data


def bitmaps():
    made = {f"bmp {p.mode}": saved(p, "BMP") for p in (BITS, GREY, PALETTE, RGB, RGBA)}
    made["bmp of few colours"] = saved(SMALL, "BMP")
    for bits, masks in ((16, ()), (32, ()), (16, (0xF800, 0x7E0, 0x1F)), (16, (0x7C00, 0x3E0, 0x1F)), (24, (0xFF0000, 0xFF00, 0xFF))):
        made[f"bmp {bits} {masks}"] = bitmap(bits, masks)
    four = [
        (0xFF0000, 0xFF00, 0xFF, 0),
        (0xFF000000, 0xFF0000, 0xFF00, 0),
        (0xFF000000, 0xFF00, 0xFF, 0),
        (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
        (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
        (0xFF0000, 0xFF00, 0xFF, 0xFF000000),
        (0xFF000000, 0xFF00, 0xFF, 0xFF0000),
        (0, 0, 0, 0),
    ]
    made |= {f"bmp 32 {masks}": bitmap(32, masks, header=124) for masks in four}
    values = RNG.integers(0, 256, 36 * 19, dtype=np.uint8).tobytes()
    head = struct.pack("<IiiHHIIiiII", 40, 33, 19, 1, 8, 0, 0, 0, 0, 7, 0) + RNG.integers(0, 256, 28, dtype=np.uint8).tobytes()
    made["bmp of numbers after the palette"] = b"BM" + struct.pack("<IHHI", 14 + len(head) + len(values), 0, 0, 14 + len(head)) + head + values
    return made | {"bmp from the top": bitmap(32, from_top=True), "bmp of OS/2": old_bitmap()}


def maps():
    values = RNG.integers(0, 8, 33 * 19 * 3, dtype=np.uint8)
    deep = RNG.integers(0, 701, 33 * 19 * 3).astype(">u2")
    text = " ".join(map(str, values)).encode()
    bits = "".join("01"[v % 2] for v in values[: 33 * 19]).encode()
    return {
        "pbm": saved(BITS, "PPM"),
        "pgm": saved(GREY, "PPM"),
        "ppm": saved(RGB, "PPM"),
        "pgm of 8 values": b"P5 33 19 7\n" + values[: 33 * 19].tobytes(),
        "ppm of 8 values": b"P6\n# a comment\n33 # another\n19\n7\n" + values.tobytes(),
        "ppm with too large values": b"P6\n33 19 5\n" + values.tobytes(),
        "ppm of 16 bits": b"P6\n33 19 700\n" + deep.tobytes(),
        "plain pbm": b"P1\n33 19\n" + bits[:300] + b" # 0101\n\n" + bits[300:],
        "plain pgm": b"P2\t33 19 7 " + b" ".join(text.split()[: 33 * 19]) + b"\n# end\n",
        "plain ppm": b"P3\n33 19\n7\n# comment 1 2 3\n" + text + b"\n",
        "plain ppm of 16 bits": b"P3\n33 19\n700\n" + " ".join(map(str, deep)).encode(),
    }


def reversed_bits(tiff):
    """Returns a TIFF of one strip with the bits of each byte in reverse order."""
    with Image.open(io.BytesIO(tiff)) as opened:
        (start,), (length,) = opened.tag_v2[273], opened.tag_v2[279]
    turn = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
    (directory,) = struct.unpack_from("<I", tiff, 4)
    (count,) = struct.unpack_from("<H", tiff, directory)
    # The directory moves to the end, with an entry more, in the order of the tags.
    entries = [tiff[directory + 2 + 12 * i :][:12] for i in range(count)]
    entries = sorted([*entries, struct.pack("<HHII", 266, 3, 1, 2)], key=lambda entry: struct.unpack_from("<H", entry))
    moved = struct.pack("<H", count + 1) + b"".join(entries) + bytes(4)
    data = tiff[:start] + tiff[start : start + length].translate(turn) + tiff[start + length :]
    return data[:4] + struct.pack("<I", len(data)) + data[8:] + moved


def tiffs():
    made = {}
    for picture in (BITS, GREY, PALETTE, RGB, RGBA, RGBA.convert("LA"), RGB.convert("CMYK")):
        for compression in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits"):
            made[f"tiff {picture.mode} {compression}"] = saved(picture, "TIFF", compression=compression)
    for number in range(1, 9):
        made[f"tiff turned {number}"] = saved(RGB, "TIFF", tiffinfo={274: number})
        made[f"tiff turned RGBA {number}"] = saved(RGBA, "TIFF", tiffinfo={274: number})
    made["tiff horizontal differences"] = saved(RGB, "TIFF", compression="tiff_lzw", tiffinfo={317: 2})
    channels = np.concatenate([np.asarray(RGB), np.asarray(GREY)[..., None]], -1)
    four = Image.frombytes("RGBX", (33, 19), channels.tobytes())
    made["tiff four channels"] = saved(four, "TIFF")
    made["tiff horizontal differences of four channels"] = saved(four, "TIFF", compression="tiff_lzw", tiffinfo={317: 2})
    for picture, turned in ((GREY, None), (GREY, "tiff_lzw"), (RGB, "packbits"), (BITS, None), (PALETTE, "tiff_adobe_deflate")):
        made[f"tiff {picture.mode} from the lowest bit {turned}"] = reversed_bits(saved(picture, "TIFF", compression=turned))
    made["tiff short strips"] = saved(RGB, "TIFF", tiffinfo={278: 4})
    made["tiff multiplied"] = saved(RGBA, "TIFF", tiffinfo={338: 1})
    made["tiff two pages"] = saved(RGB, "TIFF", save_all=True, append_images=[GREY])
    made["tiff big-endian"] = saved(Image.fromarray(np.asarray(GREY)), "TIFF", big_tiff=True)
    return made


def framed(left, top, transparent, index=3):
    """Returns a GIF with a first frame that covers a part of the canvas, or reaches beyond it."""
    palette = RNG.integers(0, 256, 3 * 256, dtype=np.uint8).tobytes()
    frame = saved(Image.fromarray(RNG.integers(0, 256, (9, 14), dtype=np.uint8), "P"), "GIF")
    start = frame.index(b"\x2c" + struct.pack("<HHHH", 0, 0, 14, 9))
    image = bytearray(frame[start:])
    image[1:5] = struct.pack("<HH", left, top)
    colours, body = b"", bytes(image)
    control = b"\x21\xf9\x04" + bytes([1, 0, 0, index, 0]) if transparent else b""
    return b"GIF89a" + struct.pack("<HHBBB", 33, 19, 0xF7, 5, 0) + palette + colours + control + body


def gifs():
    frames = [Image.fromarray(RNG.integers(0, 256, (19, 33, 3), dtype=np.uint8)) for _ in range(3)]
    return {
        "gif": saved(PALETTE, "GIF"),
        "gif of grey levels": saved(GREY, "GIF"),
        "gif of bits": saved(BITS, "GIF"),
        "gif of few colours": saved(SMALL, "GIF"),
        "gif with transparency": saved(PALETTE, "GIF", transparency=7),
        "gif not interlaced": saved(PALETTE, "GIF", interlace=0),
        "gif of several frames": saved(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=50),
        "gif with a part": framed(5, 4, False),
        "gif with a part and transparency": framed(5, 4, True),
        "gif beyond its canvas": framed(25, 15, True),
    }


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
@pytest.mark.parametrize("make", [bitmaps, maps, tiffs, gifs])
def test_files_have_the_pixels_of_pillow(tmp_path, make, mode):
    made = make()
    with fb.MDSWriter(out=str(tmp_path / "set"), columns={"image": "bytes"}) as writer:
        for file in made.values():
            writer.write({"image": file})
    fields = {
        "whole": fb.Image("image", mode=mode, layout="NHWC"),
        "cut": fb.Image("image", fb.CenterCrop((7, 9)), mode=mode, layout="NHWC"),
    }
    with fb.Loader(local=str(tmp_path / "set"), fields=fields, batch_size=1, framework="numpy", shuffle=False) as loader:
        for (name, file), batch in zip(made.items(), loader, strict=True):
            picture = Image.open(io.BytesIO(file))
            picture.load()
            expected = np.asarray(picture.convert(mode))
            expected = expected.reshape(*expected.shape[:2], -1)
            assert np.array_equal(batch["whole"][0], expected), name
            top, left = round((len(expected) - 7) / 2), round((expected.shape[1] - 9) / 2)
            assert np.array_equal(batch["cut"][0], expected[top : top + 7, left : left + 9]), name


def test_values_of_one_channel_are_labels_and_depths(tmp_path):
    deep = RNG.integers(0, 65536, (19, 33)).astype(np.uint16)
    labels = {
        "bmp": (saved(PALETTE, "BMP"), np.asarray(PALETTE)),
        "gif": (saved(SMALL, "GIF", optimize=False), None),
        "tiff": (saved(PALETTE, "TIFF"), np.asarray(PALETTE)),
        "tiff grey": (saved(GREY, "TIFF", compression="tiff_lzw"), np.asarray(GREY)),
        "tiff deep": (saved(Image.fromarray(deep), "TIFF"), deep),
        "pgm": (saved(GREY, "PPM"), np.asarray(GREY)),
        "pgm deep": (b"P5 33 19 65535\n" + deep.astype(">u2").tobytes(), deep),
    }
    with fb.MDSWriter(out=str(tmp_path / "set"), columns={"image": "bytes"}) as writer:
        for file, _ in labels.values():
            writer.write({"image": file})
    fields = {"mask": fb.Mask("image")}
    with fb.Loader(local=str(tmp_path / "set"), fields=fields, batch_size=1, framework="numpy", shuffle=False) as loader:
        for (name, (file, expected)), batch in zip(labels.items(), loader, strict=True):
            expected = np.asarray(Image.open(io.BytesIO(file))) if expected is None else expected
            assert np.array_equal(batch["mask"][0], expected), name
    with fb.MDSWriter(out=str(tmp_path / "deep"), columns={"image": "bytes"}) as writer:
        for name in ("tiff deep", "pgm deep", "tiff grey", "pgm"):
            writer.write({"image": labels[name][0]})
    field = fb.Image("image", mode="I;16")
    with fb.Loader(local=str(tmp_path / "deep"), fields={"x": field}, batch_size=4, framework="numpy", shuffle=False) as loader:
        rows = next(iter(loader))["x"]
    grey = np.asarray(GREY)
    assert all(np.array_equal(row[0], expected) for row, expected in zip(rows, (deep, deep, grey, grey), strict=True))


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"\0\0\0\x20ftypavif", "the file is AVIF"),
        (b"\xff\x0a", "the file is JPEG XL"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "the file is JPEG 2000"),
        (b"no picture", "JPEG, PNG, WebP, BMP, GIF"),
    ],
)
def test_unknown_formats_are_named(tmp_path, start, message):
    with fb.MDSWriter(out=str(tmp_path / "set"), columns={"image": "bytes"}) as writer:
        writer.write({"image": start + bytes(40)})
    with (
        pytest.raises(fb.UnsupportedError, match=message),
        fb.Loader(local=str(tmp_path / "set"), fields={"x": fb.Image("image")}, batch_size=1) as loader,
    ):
        next(iter(loader))


def test_a_folder_of_such_pictures_is_read(tmp_path):
    for number, (form, name) in enumerate((("BMP", "a.bmp"), ("PPM", "b.ppm"), ("PPM", "c.pgm"), ("TIFF", "d.tif"), ("TIFF", "e.TIFF"))):
        folder = tmp_path / "set" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(saved(GREY if name == "c.pgm" else RGB, form))
    options = {"fields": {"x": fb.Image("file")}, "batch_size": 1, "framework": "numpy", "shuffle": False}
    with fb.Loader(local=str(tmp_path / "set"), **options) as loader:
        rows = [batch["x"][0].transpose(1, 2, 0) for batch in loader]
    greys = sum(np.array_equal(row, np.asarray(GREY.convert("RGB"))) for row in rows)
    assert len(rows) == 5 and greys == 1 and sum(np.array_equal(row, np.asarray(RGB)) for row in rows) == 4
