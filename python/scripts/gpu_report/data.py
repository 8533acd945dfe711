"""Photographs and shards for measurements."""

import contextlib
import dataclasses
import functools
import io
import json
import multiprocessing
import pathlib

import numpy as np
from PIL import Image, JpegImagePlugin, UnidentifiedImageError

import forebay as fb


def photograph(seed, width, height, detail):
    """Makes RGB pixels with gradients, edges and texture; more `detail` makes a longer file. Fine texture is grey,
    because methods of chroma upsampling differ if colours change from pixel to pixel.
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


def synthetic(count, width, height, quality=90, detail=1.4, processes=1):
    """Makes `count` files in parallel processes."""
    make = functools.partial(jpeg, width=width, height=height, quality=quality, detail=detail)
    if processes == 1:
        return [make(seed) for seed in range(count)]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        return pool.map(make, range(count))


def photographs(folder, count):
    """Returns the first `count` JPEGs of a folder tree. Skips files that are not JPEGs in spite of their names, and
    colours that not every decoder supports, such as CMYK: ImageNet has a few of both.
    """
    files = []
    for path in sorted(path for path in pathlib.Path(folder).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg")):
        file = path.read_bytes()
        with contextlib.suppress(UnidentifiedImageError), Image.open(io.BytesIO(file)) as picture:
            if picture.format in ("JPEG", "MPO") and picture.mode in ("RGB", "L"):
                files.append(file)
        if len(files) == count:
            break
    return files


def size(file):
    """Returns width and height of a picture."""
    with Image.open(io.BytesIO(file)) as picture:
        return picture.size


def baseline(files):
    """Returns the files that engines accept: they reject a whole batch with a progressive file."""
    return [file for file in files if not Image.open(io.BytesIO(file)).info.get("progressive")]


def describe(file):
    """Returns the features of a file, which may be damaged, that decoders treat differently."""
    found = {"file_bytes": len(file)}
    with contextlib.suppress(OSError, SyntaxError), Image.open(io.BytesIO(file)) as picture:
        subsampling = {0: "4:4:4", 1: "4:2:2", 2: "4:2:0"}.get(JpegImagePlugin.get_sampling(picture), "unknown")
        found |= {"width": picture.width, "height": picture.height, "mode": picture.mode, "subsampling": subsampling}
        found["progressive"] = bool(picture.info.get("progressive"))
    return found


@dataclasses.dataclass
class Pictures:
    """Files with their kinds, and a data set that repeats them in order."""

    files: list
    kinds: list
    paths: list
    folder: str

    def of(self, number):
        """Returns the file of a sample, and its kind."""
        at = int(number) % len(self.files)
        return self.files[at], self.kinds[at]


def make_pictures(folder, files, kinds=None, times=1):
    """Writes the pictures for `read_pictures`, which may be called in a different process."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    for number, file in enumerate(files):
        (folder / f"{number}.jpg").write_bytes(file)
    (folder / "kinds").write_text(json.dumps(kinds or ["usual"] * len(files)))
    write_shards(folder / "shards", files, times)


def read_pictures(folder):
    """Reads the pictures of `make_pictures`."""
    folder = pathlib.Path(folder)
    kinds = json.loads((folder / "kinds").read_text())
    paths = [folder / f"{number}.jpg" for number in range(len(kinds))]
    return Pictures([path.read_bytes() for path in paths], kinds, paths, str(folder / "shards"))


def colour_edges(width=256, height=192):
    """Makes a file with half-resolution colours that change every few pixels, which shows the method of upsampling."""
    cells = np.random.default_rng(5).integers(50, 206, (height // 4, width // 4, 3), np.uint8)
    out = io.BytesIO()
    # Shifted by one, for edges inside the pairs of pixels that share a colour.
    pixels = np.roll(cells.repeat(4, 0).repeat(4, 1), 1, (0, 1))
    Image.fromarray(pixels).save(out, "JPEG", quality=95, subsampling=2)
    return out.getvalue()


def upsampled(file):
    """Returns a 4:2:0 file's pixels with colours upsampled like libjpeg-turbo, and by repetition."""

    def planes(scale):
        picture = Image.open(io.BytesIO(file))
        # At half the size, libjpeg-turbo uses the colours without upsampling.
        picture.draft("YCbCr", (picture.width // scale, picture.height // scale))
        return np.asarray(picture)

    smooth, halved = planes(1), planes(2)
    plain = np.dstack([smooth[:, :, 0], *(halved[:, :, i].repeat(2, 0).repeat(2, 1) for i in (1, 2))])
    return tuple(np.asarray(Image.fromarray(ycc, "YCbCr").convert("RGB")).astype(int) for ycc in (smooth, plain))


def write_shards(folder, files, times=1):
    """Writes a data set of the files in order, repeated, and their numbers."""
    with fb.MDSWriter(out=str(folder), columns={"image": "jpeg", "number": "int"}) as writer:
        for number in range(times * len(files)):
            writer.write({"image": files[number % len(files)], "number": number})
    return str(folder)


def odd():
    """Returns files of every kind that decoders treat differently, by name."""
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
    return files


def damaged():
    """Returns files by name, some of them damaged."""
    whole = jpeg(11, 120, 90)
    middle = len(whole) * 2 // 3
    flipped = bytes(byte ^ 0x5A for byte in whole[middle : middle + 16])
    return {
        **{f"whole {seed}": jpeg(seed, 120, 90) for seed in range(12, 18)},
        "cut off": whole[: len(whole) // 2],
        "without its head": whole[40:],
        "damaged in its scan": whole[:middle] + flipped + whole[middle + 16 :],
    }


def write_rows(folder, samples, row_bytes):
    """Writes a data set of fixed rows that need no decoding."""
    rng, length = np.random.default_rng(0), row_bytes // 2
    with fb.MDSWriter(out=str(folder), columns={"tokens": f"ndarray:uint16:{length}"}) as writer:
        for _ in range(samples):
            writer.write({"tokens": rng.integers(0, 50_000, length, dtype=np.uint16)})
    return str(folder)
