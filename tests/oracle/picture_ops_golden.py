"""Records the results of torchvision's operations on PIL images, under tests/data/picture_ops.

    python tests/oracle/picture_ops_golden.py                   # the file of the repository
    python tests/oracle/picture_ops_golden.py OUT 3000 --seed 7 # different cases, for a live comparison:
    FOREBAY_PICTURE_OPS_GOLDEN=OUT cargo test -p forebay-loader --lib picture_ops::

Needs pillow, numpy, torch and torchvision. A case is an operation with its parameters, and the number from which the
test makes the same picture as `picture` does here. The resulting pixels are in a file, in sequence.
"""

import argparse
import json
import math
import os
import random

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

SAMPLINGS = {
    "nearest": (InterpolationMode.NEAREST, Image.Resampling.NEAREST),
    "bilinear": (InterpolationMode.BILINEAR, Image.Resampling.BILINEAR),
    "bicubic": (InterpolationMode.BICUBIC, Image.Resampling.BICUBIC),
}
SIZES = [(1, 1), (1, 6), (7, 1), (2, 2), (3, 3), (7, 5), (5, 9), (33, 17), (24, 19)]


def picture(width, height, channels, seed):
    """Noise, noise of few values, one colour, or slopes with a little noise."""
    state, noise = seed, []
    for _ in range(width * height * channels):
        state = (state * 1_664_525 + 1_013_904_223) & 0xFFFF_FFFF
        noise.append(state >> 24)
    noise = np.array(noise).reshape(height, width, channels)
    y, x, c = np.mgrid[:height, :width, :channels]
    kinds = [noise, 90 + noise % 8 * 3, np.full_like(noise, noise[0, 0, 0]), x * 7 + y * 5 + c * 60 + noise % 4]
    pixels = (kinds[seed % 4] & 255).astype(np.uint8)
    return Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)


def factor(r):
    return r.choice([0.0, 1.0, 0.5, 2.0, r.uniform(0, 1), r.uniform(0, 1), r.uniform(1, 3), r.uniform(1, 3)])


def kernel_sizes(r, image):
    return [2 * r.randrange(min(12, (side + 1) // 2)) + 1 for side in image.size]


def corners(r, image):
    """Corners as RandomPerspective draws them."""
    w, h = image.size
    x, y = int(0.6 * (w // 2)), int(0.6 * (h // 2))
    left, right = lambda: r.randint(0, x), lambda: r.randint(w - x - 1, w - 1)
    top, bottom = lambda: r.randint(0, y), lambda: r.randint(h - y - 1, h - 1)
    start = [[0, 0], [w - 1, 0], [w - 1, h - 1], [0, h - 1]]
    return start, [[left(), top()], [right(), top()], [right(), bottom()], [left(), bottom()]]


def matrix(r):
    kind = r.randrange(6)
    a = [r.gauss(1, 0.5), r.gauss(0, 0.3), r.gauss(0, 9), r.gauss(0, 0.3), r.gauss(1, 0.5), r.gauss(0, 9)]
    if kind == 0:
        a[1] = a[3] = 0.0
    elif kind == 1:
        a = [round(2 * value) / 2 for value in a]
    elif kind == 2:
        a = [value * 3000 for value in a]
    return a


def point(name):
    return lambda image, r: ([], getattr(F, name)(image))


def with_factor(name):
    def run(image, r):
        value = factor(r)
        return [value], getattr(F, name)(image, value)

    return run


def posterize(image, r):
    bits = r.randint(1, 8)
    return [bits], F.posterize(image, bits)


def solarize(image, r):
    threshold = r.choice([0.0, 128.0, 256.0, r.uniform(0, 256)])
    return [threshold], F.solarize(image, threshold)


def run_of_points(image, r):
    """Several operations, where each sees the result of the operations before."""
    a, b, c = r.uniform(0, 256), factor(r), factor(r)
    image = F.adjust_brightness(F.equalize(F.solarize(image, a)), b)
    return [a, b, c], F.posterize(F.equalize(F.invert(F.adjust_contrast(F.autocontrast(image), c))), 5)


def hue(image, r):
    value = r.uniform(-0.5, 0.5)
    return [value], F.adjust_hue(image, value)


def gaussian_blur(image, r):
    size, sigma = kernel_sizes(r, image), [r.uniform(0.1, 5), r.uniform(0.1, 5)]
    return size + sigma, F.gaussian_blur(image, size, sigma)


def warped(run):
    """Adds a sampling, a fill colour and the size of the result."""

    def warp(image, r):
        sampling = r.choice(list(SAMPLINGS))
        fill = [r.choice([0, r.randrange(256)]) for _ in image.getbands()]
        args, out = run(image, r, *SAMPLINGS[sampling], fill)
        return {"args": args, "sampling": sampling, "fill": fill, "to": list(out.size)}, out

    return warp


def size(r, image):
    return r.choice([image.size, (r.randint(1, 40), r.randint(1, 40))])


def affine(image, r, _, sampling, fill):
    a = matrix(r)
    colour = tuple(fill) if len(fill) == 3 else fill[0]
    return a, image.transform(size(r, image), Image.Transform.AFFINE, a, sampling, fillcolor=colour)


def perspective(image, r, _, sampling, fill):
    a = matrix(r)[:6] + [r.gauss(0, 0.005), r.gauss(0, 0.005)]
    colour = tuple(fill) if len(fill) == 3 else fill[0]
    return a, image.transform(size(r, image), Image.Transform.PERSPECTIVE, a, sampling, fillcolor=colour)


def parameters(image, r, sampling, _, fill):
    center = r.choice([None, [r.uniform(0, image.width), float(r.randint(0, image.height))]])
    angle, scale = r.choice([0.0, r.uniform(-180, 180)]), r.choice([1.0, r.uniform(0.3, 2)])
    translate = [r.randint(-9, 9), r.randint(-9, 9)]
    shear = r.choice([[0.0, 0.0], [math.degrees(math.atan(r.uniform(-0.9, 0.9))), 0.0], [r.uniform(-40, 40), r.uniform(-40, 40)]])
    out = F.affine(image, angle, translate, scale, shear, sampling, fill, center)
    return [*(center or [image.width * 0.5, image.height * 0.5]), angle, *translate, scale, *shear], out


def rotate(image, r, sampling, _, fill):
    angle = float(r.choice([0, 90, 180, 270, -90, 45, 30, r.uniform(-400, 400), r.uniform(-30, 30)]))
    expand, center = r.choice([True, False]), r.choice([None, [r.uniform(0, image.width), 1.0]])
    return [angle, float(expand), *(center or [])], F.rotate(image, angle, sampling, expand, center, fill)


def moved_corners(image, r, sampling, _, fill):
    start, end = corners(r, image)
    return sum(start + end, []), F.perspective(image, start, end, sampling, fill)


def uniforms(seed):
    """Numbers from 0 to 1 that the test draws as well."""
    while True:
        seed = (seed * 1_664_525 + 1_013_904_223) & 0xFFFF_FFFF
        yield (seed >> 8) / 16_777_216


def elastic(image, r, sampling, _, fill, seed):
    """As ElasticTransform: it draws all columns, and then all rows."""
    # torchvision refuses pictures that are smaller than half a kernel, and smooths with both numbers or with none.
    most = (min(image.size) - 1) / 4 - 0.25
    sigma = [r.uniform(0.3, most), r.uniform(0.3, most)] if most > 0.5 and r.random() < 0.8 else [0.0, 0.0]
    alpha, numbers = [r.uniform(-60, 60), r.uniform(-60, 60)], uniforms(seed)
    planes = []
    for number, side in zip(range(2), image.size, strict=True):
        plane = torch.tensor([next(numbers) for _ in range(image.width * image.height)]).reshape(1, 1, image.height, image.width) * 2 - 1
        if sigma[number] > 0:
            taps = int(8 * sigma[number] + 1) | 1
            plane = F.gaussian_blur(plane, [taps, taps], sigma)
        planes.append(plane * alpha[number] / side)
    displacement = torch.concat(planes, 1).permute(0, 2, 3, 1)
    return alpha + sigma, F.elastic(image, displacement, sampling, fill)


OPERATIONS = {
    "brightness": with_factor("adjust_brightness"),
    "contrast": with_factor("adjust_contrast"),
    "saturation": with_factor("adjust_saturation"),
    "sharpness": with_factor("adjust_sharpness"),
    "posterize": posterize,
    "solarize": solarize,
    "invert": point("invert"),
    "equalize": point("equalize"),
    "autocontrast": point("autocontrast"),
    "run": run_of_points,
    "grayscale": lambda image, r: ([], F.rgb_to_grayscale(image, len(image.getbands()))),
    "hue": hue,
    "gaussian_blur": gaussian_blur,
    "affine": warped(affine),
    "affine_matrix": warped(parameters),
    "perspective": warped(perspective),
    "perspective_coefficients": warped(moved_corners),
    "rotate": warped(rotate),
    "flip_horizontal": point("horizontal_flip"),
    "flip_vertical": point("vertical_flip"),
    "elastic": None,
}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?", default=os.path.join(here, "../data/picture_ops"))
    parser.add_argument("count", nargs="?", type=int, default=12, help="cases of each operation")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    r = random.Random(args.seed)
    with open(os.path.join(args.out, "cases.jsonl"), "w") as cases, open(os.path.join(args.out, "want"), "wb") as want:
        for name, operation in OPERATIONS.items():
            for number in range(args.count):
                width, height = SIZES[-1 - number] if number < len(SIZES) else (r.randint(1, 40), r.randint(1, 40))
                channels, seed = 1 if number % 4 == 3 else 3, r.randrange(1 << 32)
                # Least squares give the coefficients of a line of pixels no sense.
                if name == "perspective_coefficients" and min(width, height) < 5:
                    width, height = width + 9, height + 9
                image = picture(width, height, channels, seed)
                if name == "elastic":
                    operation = warped(lambda *args, seed=seed: elastic(*args, seed))
                    SAMPLINGS.pop("bicubic", None)
                case, out = operation(image, r)
                case = case if isinstance(case, dict) else {"args": case}
                cases.write(json.dumps({"op": name, "shape": [width, height, channels], "seed": seed, **case}) + "\n")
                want.write(np.asarray(out).tobytes())


if __name__ == "__main__":
    main()
