"""Orientations in EXIF and XMP data, against Pillow's `exif_transpose`."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

import forebay as fb


def exif_of(number, order=">"):
    entry = struct.pack(order + "HHIHH", 0x112, 3, 1, number, 0)
    return (b"MM\0*" if order == ">" else b"II*\0") + struct.pack(order + "IH", 8, 1) + entry + bytes(4)


def xmp_of(number):
    return f'<x:xmpmeta><rdf:Description tiff:Orientation="{number}"/></x:xmpmeta>'.encode()


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def with_chunk(png, at_end, name, data):
    """Returns a PNG with a chunk after its header, or before its end."""
    place = len(png) - 12 if at_end else 33
    return png[:place] + chunk(name, data) + png[place:]


def as_text(exif):
    digits = exif.hex()
    lines = "\n".join(digits[start : start + 72] for start in range(0, len(digits), 72))
    return f"\nexif\n{len(exif):8}\n{lines}\n".encode()


def saved(picture, form, **options):
    out = io.BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()


def files():
    """Returns files of every way to store an orientation, by kind."""
    rng = np.random.default_rng(4)
    rgba = Image.fromarray(rng.integers(0, 256, (19, 32, 4), dtype=np.uint8), "RGBA")
    rgb = rgba.convert("RGB")
    plain, webp, made = saved(rgba, "PNG"), {"lossless": True, "exact": True}, {}
    for number in range(10):
        exif, named = exif_of(number, "<>"[number % 2]), b"Exif\0\0" + exif_of(number)
        key = b"XML:com.adobe.xmp\0\0\0\0\0"
        profile = b"Raw profile type exif\0"
        made |= {
            f"jpeg {number}": saved(rgb, "JPEG", exif=named),
            f"jpeg xmp {number}": saved(rgb, "JPEG", xmp=xmp_of(number)),
            f"png {number}": with_chunk(plain, False, b"eXIf", exif),
            f"png after the pixels {number}": with_chunk(plain, True, b"eXIf", exif),
            f"png with a name {number}": with_chunk(plain, False, b"eXIf", named),
            f"png xmp {number}": with_chunk(plain, False, b"iTXt", key + xmp_of(number)),
            f"png text {number}": with_chunk(plain, False, b"tEXt", profile + as_text(exif)),
            f"png packed text {number}": with_chunk(plain, False, b"zTXt", profile + b"\0" + zlib.compress(as_text(named))),
            f"webp {number}": saved(rgb, "WEBP", exif=exif, **webp),
            f"webp with a name {number}": saved(rgba, "WEBP", exif=named, **webp),
            f"webp xmp {number}": saved(rgba, "WEBP", xmp=xmp_of(number), **webp),
            f"both {number}": with_chunk(with_chunk(plain, False, b"eXIf", exif), True, b"iTXt", key + xmp_of(6)),
        }
    return made


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_pictures_are_turned_as_by_pillow(tmp_path, mode):
    made = files()
    with fb.MDSWriter(out=str(tmp_path / "set"), columns={"image": "bytes"}) as writer:
        for file in made.values():
            writer.write({"image": file})
    fields = {
        "turned": fb.Image("image", mode=mode, layout="NHWC", apply_exif_orientation=True),
        "stored": fb.Image("image", mode=mode, layout="NHWC"),
        "cut": fb.Image("image", fb.CenterCrop((7, 9)), mode=mode, layout="NHWC", apply_exif_orientation=True),
    }
    with fb.Loader(local=str(tmp_path / "set"), fields=fields, batch_size=1, framework="numpy", shuffle=False) as loader:
        for (name, file), batch in zip(made.items(), loader, strict=True):
            stored = Image.open(io.BytesIO(file))
            turned = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
            stored, turned = (np.asarray(picture.convert(mode)) for picture in (stored, turned))
            assert np.array_equal(batch["stored"][0].reshape(stored.shape), stored), name
            assert np.array_equal(batch["turned"][0].reshape(turned.shape), turned), name
            top, left = round((len(turned) - 7) / 2), round((turned.shape[1] - 9) / 2)
            expected = turned[top : top + 7, left : left + 9]
            assert np.array_equal(batch["cut"][0].reshape(expected.shape), expected), name
