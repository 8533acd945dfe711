"""Photographs and shards to measure with."""

import contextlib
import io
import itertools
import pathlib

import numpy as np
from PIL import Image, UnidentifiedImageError

import forebay as fb


def photograph(seed, width, height, detail):
    """RGB pixels with gradients, edges and texture; more `detail` makes a longer file. What is fine is grey: ways to bring
    colours to the picture's resolution differ by levels where they change from pixel to pixel.
    """
    rng = np.random.default_rng(seed)
    rgb = np.zeros((height, width, 3))
    for octave, side in enumerate((4, 16, 64, 256)):
        small = rng.uniform(-1, 1, (min(side, height), min(side, width), 3))
        if octave > 1:
            small[:] = small[:, :, :1]
        layer = Image.fromarray(np.uint8(127.5 + 127.5 * small)).resize((width, height), Image.Resampling.BICUBIC)
        rgb += (np.asarray(layer, float) - 127.5) * (1.0 if octave == 0 else detail / octave)
    rgb += rng.normal(0, 6 * detail, (height, width, 1))
    return np.uint8(np.clip(128 + rgb, 0, 255))


def jpeg(seed, width=500, height=375, quality=90, detail=1.4):
    out = io.BytesIO()
    Image.fromarray(photograph(seed, width, height, detail)).save(out, "JPEG", quality=quality)
    return out.getvalue()


def synthetic(count, width=500, height=375):
    """Files of quality 90, and their sizes."""
    return [jpeg(seed, width, height) for seed in range(count)], [(width, height)] * count


def photographs(folder, count):
    """The first `count` JPEGs of a folder and of those below it, and their sizes. What only has the name of one is left out, and
    so are colours that not every decoder knows, such as CMYK: ImageNet has a few of both.
    """
    files, sizes = [], []
    for path in sorted(path for path in pathlib.Path(folder).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg")):
        file = path.read_bytes()
        with contextlib.suppress(UnidentifiedImageError), Image.open(io.BytesIO(file)) as picture:
            if picture.format in ("JPEG", "MPO") and picture.mode in ("RGB", "L"):
                files.append(file)
                sizes.append(picture.size)
        if len(files) == count:
            break
    return files, sizes


def baseline(files, sizes):
    """Those of the files, and their sizes, that engines take: of a batch with a progressive one they refuse all."""
    taken = [not Image.open(io.BytesIO(file)).info.get("progressive") for file in files]
    return list(itertools.compress(files, taken)), list(itertools.compress(sizes, taken))


def colour_edges(width=256, height=192):
    """A file whose colours, at half the picture's resolution, change every few pixels: how they were brought back shows."""
    cells = np.random.default_rng(5).integers(50, 206, (height // 4, width // 4, 3), np.uint8)
    out = io.BytesIO()
    # Moved by one: edges within the pairs of pixels that share a colour, too.
    pixels = np.roll(cells.repeat(4, 0).repeat(4, 1), 1, (0, 1))
    Image.fromarray(pixels).save(out, "JPEG", quality=95, subsampling=2)
    return out.getvalue()


def upsampled(file):
    """A 4:2:0 file's pixels with colours brought to the picture's resolution as libjpeg-turbo does, and by repeating them."""

    def planes(scale):
        picture = Image.open(io.BytesIO(file))
        # Halved, libjpeg-turbo leaves the colours as they are stored.
        picture.draft("YCbCr", (picture.width // scale, picture.height // scale))
        return np.asarray(picture)

    smooth, halved = planes(1), planes(2)
    plain = np.dstack([smooth[:, :, 0], *(halved[:, :, i].repeat(2, 0).repeat(2, 1) for i in (1, 2))])
    return tuple(np.asarray(Image.fromarray(ycc, "YCbCr").convert("RGB")).astype(int) for ycc in (smooth, plain))


def write_shards(folder, files, times=1):
    """A data set of the files, one after the other and so many times, and their numbers."""
    with fb.MDSWriter(out=str(folder), columns={"image": "jpeg", "number": "int"}) as writer:
        for number in range(times * len(files)):
            writer.write({"image": files[number % len(files)], "number": number})
    return str(folder)


def odd():
    """Files of every kind that decoders treat apart, by name; the last ones are damaged."""
    shapes = {"usual": (120, 90), "one pixel": (1, 1), "one block": (8, 8), "odd sides": (97, 61), "thin": (3, 200)}
    files = {}

    def save(name, picture, **options):
        out = io.BytesIO()
        picture.save(out, "JPEG", quality=90, **options)
        files[name] = out.getvalue()

    for number, (shape, size) in enumerate(shapes.items()):
        picture = Image.fromarray(photograph(number, *size, 1.4))
        for name, subsampling in (("4:4:4", 0), ("4:2:2", 1), ("4:2:0", 2)):
            save(f"{shape}, {name}", picture, subsampling=subsampling)
        save(f"{shape}, grey", picture.convert("L"))
        save(f"{shape}, progressive", picture, progressive=True)
    picture = Image.fromarray(photograph(9, 120, 90, 1.4))
    save("restart markers", picture, restart_marker_blocks=4)
    save("CMYK", picture.convert("CMYK"))
    exif = Image.Exif()
    exif[0x0112] = 6
    save("turned", picture, exif=exif)
    whole = jpeg(11, 120, 90)
    files["cut off"] = whole[: len(whole) // 2]
    middle = len(whole) * 2 // 3
    files["damaged in its scan"] = whole[:middle] + bytes(byte ^ 0x5A for byte in whole[middle : middle + 16]) + whole[middle + 16 :]
    return files


def write_tokens(folder, samples, length):
    """A data set of fixed rows that need no decoding."""
    rng = np.random.default_rng(0)
    with fb.MDSWriter(out=str(folder), columns={"tokens": f"ndarray:uint16:{length}"}) as writer:
        for _ in range(samples):
            writer.write({"tokens": rng.integers(0, 50_000, length, dtype=np.uint16)})
    return str(folder)
