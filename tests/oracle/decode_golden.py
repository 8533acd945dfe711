"""Records the results of Pillow and torchvision for pictures, under tests/data/decode.

    python tests/oracle/decode_golden.py                        # the files of the repository, and WebP seeds for fuzzing
    python tests/oracle/decode_golden.py OUT --random N --seed S # N random cases more, for a live comparison:
    FOREBAY_DECODE_GOLDEN=OUT cargo test -p forebay-tests --test decode

Needs pillow, numpy, torch and torchvision. Every case is a picture file, a list of operations as the loader takes
them, and the pixels that come out. Random operations are drawn here again, from the definition of the generator.
"""

import argparse
import io
import json
import math
import os
import random
import shutil
import struct

import numpy as np
import torch
import torchvision.transforms.functional as F
from PIL import Image, ImageOps

BILINEAR, NEAREST = F.InterpolationMode.BILINEAR, F.InterpolationMode.NEAREST
M32, M64 = (1 << 32) - 1, (1 << 64) - 1


# The random draws, version 1.


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & M64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
    return x ^ (x >> 31)


def philox(c, k):
    c, k = list(c), list(k)
    for _ in range(10):
        p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & M32, (p0 >> 32) ^ c[3] ^ k[1], p0 & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


class Draws:
    def __init__(self, seed, field, epoch, stream, draw, operation, occurrence):
        h = 0xCBF29CE484222325
        for b in field.encode():
            h = ((h ^ b) * 0x100000001B3) & M64
        key = mix(mix(mix(mix(seed) ^ h) ^ epoch) ^ stream)
        self.key = [key & M32, key >> 32]
        self.counter = [draw & M32, draw >> 32, operation, occurrence << 16]
        self.words = []

    def u64(self):
        if not self.words:
            self.words = philox(self.counter, self.key)
            self.counter[3] += 1
        low, high, *self.words = self.words
        return high << 32 | low

    def uniform(self, low, high):
        return low + (self.u64() >> 11) * 2.0**-53 * (high - low)

    def below(self, n):
        return self.u64() * n >> 64


def crop_box(w, h, scale, ratio, draws):
    """torchvision's RandomResizedCrop.get_params on the random numbers `draws`."""
    for _ in range(10):
        area = w * h * draws.uniform(*scale)
        aspect = math.exp(draws.uniform(math.log(ratio[0]), math.log(ratio[1])))
        cw, ch = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < cw <= w and 0 < ch <= h:
            y = draws.below(h - ch + 1)
            return draws.below(w - cw + 1), y, cw, ch
    if w / h < ratio[0]:
        cw, ch = w, round(w / ratio[0])
    elif w / h > ratio[1]:
        cw, ch = round(h * ratio[1]), h
    else:
        cw, ch = w, h
    return (w - cw) // 2, (h - ch) // 2, cw, ch


# Operations as torchvision does them on Pillow images.


def apply(image, ops, seed, field, key, labels):
    seen = {}
    filter = NEAREST if labels else BILINEAR
    for op in ops:
        kind = op["op"]
        nth = seen[kind] = seen.get(kind, -1) + 1
        if kind == "random_resized_crop":
            draws = Draws(seed, field, *key, 1, nth)
            x, y, w, h = crop_box(*image.size, op["scale"], op["ratio"], draws)
            image = F.resized_crop(image, y, x, h, w, op["size"], filter)
        elif kind == "resize":
            image = F.resize(image, op["size"], filter, antialias=True)
        elif kind == "center_crop":
            image = F.center_crop(image, op["size"])
        elif kind == "random_horizontal_flip":
            if Draws(seed, field, *key, 2, nth).uniform(0, 1) < op["p"]:
                image = F.hflip(image)
        else:
            tensor = F.normalize(F.to_tensor(image), op["mean"], op["std"])
            return tensor.numpy()
    return np.asarray(image)


# Pictures: smooth ground, hard edges, noise.


def picture(w, h, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w]
    ground = np.stack([128 + 90 * np.sin(x / rng.uniform(5, 40) + y / rng.uniform(5, 40) + c) for c in range(3)], -1)
    for _ in range(6):
        x0, y0 = rng.integers(0, w), rng.integers(0, h)
        ground[y0 : y0 + rng.integers(1, h + 1), x0 : x0 + rng.integers(1, w + 1)] = rng.integers(0, 256, 3)
    noise = rng.normal(0, rng.uniform(0, 25), ground.shape)
    return Image.fromarray(np.clip(ground + noise, 0, 255).astype(np.uint8))


def alpha(image, mode):
    """The same colours, in mode RGBA with an alpha plane that has every kind of value."""
    if mode == "RGBA":
        w, h = image.size
        image.putalpha(Image.fromarray((np.arange(w * h) * 7 % 300).clip(0, 255).astype(np.uint8).reshape(h, w)))
    return image


def file(image, kind, **options):
    if kind == "pil":
        mode = image.mode.encode()
        return struct.pack("<III", *image.size, len(mode)) + mode + image.tobytes()
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def rgb(data, kind, is_oriented):
    if kind == "pil":
        w, h, n = struct.unpack_from("<III", data)
        return Image.frombytes(data[12 : 12 + n].decode(), (w, h), data[12 + n :]).convert("RGB")
    image = Image.open(io.BytesIO(data))
    return (ImageOps.exif_transpose(image) if is_oriented else image).convert("RGB")


def oriented(number):
    """EXIF data with this orientation."""
    exif = Image.Exif()
    exif[0x10F] = "a maker's name"
    exif[0x112] = number
    return exif.tobytes()


class Recorder:
    def __init__(self, out):
        self.out, self.cases = out, []

    def add(self, image, kind, ops, layout="NHWC", labels=False, is_oriented=False, **options):
        n = len(self.cases)
        data = file(image, kind, **options)
        seed, key = n * 7919, (n % 5, n % 3, n * 1_000_003 << (n % 20))
        ops = [{"scale": [0.08, 1.0], "ratio": [3 / 4, 4 / 3], **op} if op["op"] == "random_resized_crop" else op for op in ops]
        source = image if labels else rgb(data, kind, is_oriented)
        want = apply(source, ops, seed, "x", key, labels)
        dtype = "float32" if want.dtype == np.float32 else "uint8"
        if labels:
            layout, want = "mask", np.asarray(want, np.uint8)
        if dtype == "uint8" and layout == "NCHW":
            want = want.transpose(2, 0, 1)
        if dtype == "float32" and layout == "NHWC":
            want = want.transpose(1, 2, 0)
        with open(os.path.join(self.out, f"{n:03}.{kind}"), "wb") as f:
            f.write(data)
        with open(os.path.join(self.out, f"{n:03}.want"), "wb") as f:
            f.write(np.ascontiguousarray(want).tobytes())
        self.cases.append(dict(file=f"{n:03}.{kind}", want=f"{n:03}.want", encoding="bytes" if kind == "webp" else kind, shape=list(want.shape), seed=seed,
                               epoch=key[0], stream=key[1], draw=key[2], ops=ops, dtype=dtype, layout=layout,
                               **({"apply_exif_orientation": True} if is_oriented else {})))

    def finish(self):
        with open(os.path.join(self.out, "cases.json"), "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(c) for c in self.cases) + "\n]\n")


def crop(size, **more):
    return dict(op="random_resized_crop", size=size, **more)


def resize(size):
    return dict(op="resize", size=size)


def center(size):
    return dict(op="center_crop", size=size)


FLIP = dict(op="random_horizontal_flip", p=0.5)
MIRROR = dict(op="random_horizontal_flip", p=1.0)
NORM = dict(op="normalize", mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])


def fixed(r):
    p = picture(97, 75, 1)
    # Every kind of file contents.
    for subsampling in (0, 1, 2):
        r.add(p, "jpeg", [], quality=90, subsampling=subsampling)
        r.add(p, "jpeg", [center([40, 33])], quality=85, subsampling=subsampling, progressive=True)
    r.add(p, "jpeg", [center([30, 50])], quality=95, subsampling=2, restart_marker_rows=1)
    r.add(p.convert("L"), "jpeg", [], quality=90)
    r.add(p.convert("CMYK"), "jpeg", [], quality=90)
    r.add(p.convert("CMYK"), "jpeg", [center([20, 20])], quality=90, progressive=True)
    r.add(p.convert("RGB"), "jpeg", [], quality=90, keep_rgb=True)
    for mode in ("1", "L", "LA", "RGB", "RGBA"):
        r.add(p.convert(mode), "png", [center([31, 47])])
    palette = p.quantize(40)
    r.add(palette, "png", [])
    r.add(palette, "png", [center([31, 47])], transparency=3)
    for mode in ("L", "LA", "RGB", "RGBA", "CMYK"):
        r.add(p.convert(mode), "pil", [center([31, 47])])
    # Every operation, on PNG, so that differences come from the operation alone.
    for w, h, ops in [
        (97, 75, [resize(48)]), (97, 75, [resize(150)]), (75, 97, [resize(48)]), (97, 75, [resize([64, 31])]),
        (97, 75, [resize([20, 140])]), (97, 75, [resize([140, 20])]), (150, 110, [resize(17)]), (5, 3, [resize([60, 60])]),
        (1, 1, [resize([7, 9])]), (2, 90, [resize(11)]), (97, 75, [resize(64), center([56, 56])]),
        (97, 75, [center([120, 41])]), (97, 75, [center([41, 120])]), (40, 30, [center([61, 60])]),
        (97, 75, [resize(40), center([60, 70]), MIRROR]), (97, 75, [center([50, 51]), resize([33, 34])]),
        (97, 75, [MIRROR, resize(60), center([33, 35])]), (64, 64, [resize(64)]), (97, 75, [MIRROR]),
        (97, 75, [resize(60), resize([31, 29])]), (97, 75, [center([120, 120]), resize([50, 50])]),
        (97, 75, [MIRROR, center([41, 42])]), (97, 75, [crop([64, 64], scale=[1, 1], ratio=[0.5, 0.6])]),
        (97, 75, [crop([64, 64], scale=[1, 1], ratio=[2, 3])]), (90, 90, [crop([40, 50], scale=[1, 1], ratio=[1, 1])]),
        (180, 135, [crop([80, 80], scale=[1, 1]), FLIP]), (97, 75, [resize(90), crop([48, 48]), FLIP]),
    ]:
        r.add(picture(w, h, w * h), "png", ops)
    for i in range(16):
        r.add(picture(80 + i, 60 + 2 * i, i), "png" if i % 2 else "jpeg", [crop([48, 48]), FLIP], layout=("NHWC", "NCHW")[i % 4 // 2])
    for i, ops in enumerate([[], [resize(40)], [resize([150, 33])], [center([120, 41]), MIRROR], [crop([48, 48]), FLIP],
                             [crop([60, 90]), FLIP], [resize(64), crop([30, 31]), FLIP]]):
        for colours in (2, 4, 16, 200):
            labels = picture(97 + i, 75 + colours % 7, i).quantize(colours)
            r.add(labels, "png" if i % 2 else "pil", ops, labels=True)
    r.add(p.convert("L"), "png", [resize(40)], labels=True)
    r.add(p, "png", [center([33, 35]), NORM], layout="NCHW")
    r.add(p, "png", [center([33, 35]), NORM], layout="NHWC")
    r.add(p, "png", [crop([40, 40]), FLIP, NORM], layout="NCHW")
    # Boxes and flips are drawn on the turned picture; without the option EXIF data means nothing.
    for number in range(1, 9):
        how = dict(exif=oriented(number), quality=88, subsampling=number % 3)
        r.add(picture(61, 47, number), "jpeg", [], is_oriented=True, **how)
        r.add(picture(90, 61, number), "jpeg", [crop([48, 40]), FLIP], is_oriented=True, progressive=number % 2 == 0, **how)
        r.add(picture(90, 61, number), "jpeg", [center([33, 21]), MIRROR], is_oriented=number % 2 == 0, **how)
    # Odd sides, where chroma is shared by a pixel less; transparent pixels that have colours; simple and extended files.
    for w, h in [(1, 1), (2, 3), (16, 16), (97, 75), (120, 33)]:
        for mode in ("RGB", "RGBA"):
            r.add(alpha(picture(w, h, w + h), mode), "webp", [], quality=[30, 75, 95][w % 3], method=3)
            r.add(alpha(picture(w, h, w - h + 99), mode), "webp", [], lossless=True, exact=True, method=3)
    r.add(p, "webp", [center([31, 47])], quality=80, exif=oriented(6), icc_profile=b"no profile")
    r.add(p.convert("L"), "webp", [center([40, 33])], lossless=True)
    r.add(palette.convert("RGB"), "webp", [crop([48, 48]), FLIP], lossless=True)
    r.add(p, "webp", [crop([48, 48]), FLIP], layout="NCHW", quality=80)
    for lossless in (False, True):
        frames = [alpha(picture(50, 41, i), "RGBA") for i in range(3)]
        r.add(frames[0], "webp", [], save_all=True, append_images=frames[1:], lossless=lossless, exact=True)


def at_random(r, n, seed):
    rng = random.Random(seed)
    for i in range(n):
        w, h = [rng.choice([rng.randint(1, 40), rng.randint(40, 200), rng.randint(200, 900)]) for _ in "wh"]
        side = lambda: rng.randint(1, 256)  # noqa: E731
        ops = []
        for _ in range(rng.randint(1, 3)):
            ops.append(rng.choice([
                lambda: crop([side(), side()]), lambda: crop([side(), side()], scale=[rng.uniform(0.01, 0.5), 1]),
                lambda: resize(min(side(), 30 * min(w, h))), lambda: resize([side(), side()]),
                lambda: center([side(), side()]), lambda: FLIP,
            ])())
        # An extreme strip would make torchvision's own sizes 0 or huge.
        if max(w, h) > 20 * min(w, h):
            ops = [crop([side(), side()])]
        kind = rng.choice(["png", "jpeg", "webp"])
        options = {
            "png": {},
            "jpeg": dict(quality=rng.randint(60, 98), subsampling=rng.choice([0, 1, 2]), progressive=rng.random() < 0.3),
            "webp": dict(quality=rng.randint(5, 100), lossless=rng.random() < 0.4, method=rng.randint(0, 4)),
        }[kind]
        r.add(picture(w, h, i), kind, ops, **options)
        if i % 4 == 0:
            # Mirrored first, a centre on the border of two samples has the opposite sample for its neighbour: flips go last.
            ops = sorted(ops, key=lambda op: op is FLIP)
            r.add(picture(w, h, i).quantize(rng.randint(2, 256)), "png", ops, labels=True)


def webp_seeds(out):
    """Small files of every kind, for those that damage them."""
    os.makedirs(out, exist_ok=True)
    p = picture(40, 27, 5)
    frames = [alpha(picture(24, 17, i), "RGBA") for i in range(3)]
    for name, image, options in [
        ("lossy", p, dict(quality=60)),
        ("lossy_large", picture(130, 70, 6), dict(quality=20, method=4)),
        ("lossy_alpha", frames[0], dict(quality=50)),
        ("lossless", p, dict(lossless=True)),
        ("lossless_alpha", frames[1], dict(lossless=True, exact=True)),
        ("lossless_palette", p.quantize(12), dict(lossless=True)),
        ("lossless_large", picture(130, 70, 7).quantize(60).convert("RGB"), dict(lossless=True, method=6)),
        ("extended", p, dict(quality=30, exif=oriented(6), icc_profile=b"no profile")),
        ("animation", frames[0], dict(save_all=True, append_images=frames[1:], lossless=True)),
        ("animation_lossy", frames[0], dict(save_all=True, append_images=frames[1:], quality=40)),
    ]:
        with open(os.path.join(out, f"{name}.webp"), "wb") as f:
            f.write(file(image, "webp", **options))


def seeds(out):
    """Small files of every kind of every format but JPEG, for those that damage them."""
    webp_seeds(out)
    p, grey = picture(40, 27, 5), picture(40, 27, 6).convert("L")
    few, deep = p.quantize(12), Image.fromarray(np.asarray(grey).astype(np.uint16) * 200)
    rgba = alpha(picture(24, 17, 3), "RGBA")
    for name, kind, image, options in [
        ("bits.bmp", "bmp", grey.convert("1"), {}),
        ("grey.bmp", "bmp", grey, {}),
        ("palette.bmp", "bmp", few, {}),
        ("rgb.bmp", "bmp", p, {}),
        ("rgba.bmp", "bmp", rgba, {}),
        ("bits.pbm", "ppm", grey.convert("1"), {}),
        ("grey.pgm", "ppm", grey, {}),
        ("deep.pgm", "ppm", deep, {}),
        ("rgb.ppm", "ppm", p, {}),
        ("palette.gif", "gif", few, {}),
        ("transparent.gif", "gif", few, dict(transparency=3, interlace=0)),
        ("animation.gif", "gif", few, dict(save_all=True, append_images=[p.quantize(9)])),
        ("rgb.tif", "tiff", p, {}),
        ("rgba.tif", "tiff", rgba, dict(compression="tiff_lzw")),
        ("turned.tif", "tiff", p, dict(compression="tiff_adobe_deflate", tiffinfo={274: 6, 317: 2})),
        ("palette.tif", "tiff", few, dict(compression="packbits")),
        ("bits.tif", "tiff", grey.convert("1"), {}),
        ("deep.tif", "tiff", deep, dict(compression="tiff_lzw")),
        ("cmyk.tif", "tiff", p.convert("CMYK"), dict(tiffinfo={278: 5})),
        ("text.png", "png", few, dict(exif=oriented(6))),
    ]:
        with open(os.path.join(out, name), "wb") as f:
            f.write(file(image, kind, **options))
    plain = " ".join(str(v) for v in np.asarray(p).ravel()[: 3 * 20])
    with open(os.path.join(out, "plain.ppm"), "w") as f:
        f.write(f"P3\n# a comment\n5 4\n255\n{plain}\n")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    a = argparse.ArgumentParser()
    a.add_argument("out", nargs="?", default=os.path.join(here, "..", "data", "decode"))
    a.add_argument("--random", type=int, default=0)
    a.add_argument("--seed", type=int, default=0)
    a = a.parse_args()
    shutil.rmtree(a.out, ignore_errors=True)
    os.makedirs(a.out)
    recorder = Recorder(a.out)
    fixed(recorder)
    at_random(recorder, a.random, a.seed)
    recorder.finish()
    if a.random == 0:
        seeds(os.path.join(here, "..", "data", "pictures", "seeds"))
    print(f"{len(recorder.cases)} cases, torch {torch.__version__}")


if __name__ == "__main__":
    main()
