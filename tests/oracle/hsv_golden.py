"""Records the changes of hue, saturation and value that OpenCV makes, under tests/data/picture_ops.

    python tests/oracle/hsv_golden.py

Needs albumentations (1.4.18), its OpenCV and numpy. The tables are from ultralytics' `RandomHSV`, and the second half of the cases
are results of albumentations' `HueSaturationValue` with the drawn numbers given. Sides of 64 pixels: OpenCV rounds columns that do not fill a
vector differently.
"""

import json
import os
import random

import cv2
import numpy as np
from albumentations.augmentations.functional import shift_hsv

SIDE = 64


def picture(seed):
    """As `picture` of picture_ops_golden.py."""
    state, noise = seed, []
    for _ in range(SIDE * SIDE * 3):
        state = (state * 1_664_525 + 1_013_904_223) & 0xFFFF_FFFF
        noise.append(state >> 24)
    noise = np.array(noise).reshape(SIDE, SIDE, 3)
    y, x, c = np.mgrid[:SIDE, :SIDE, :3]
    kinds = [noise, 90 + noise % 8 * 3, np.full_like(noise, noise[0, 0, 0]), x * 7 + y * 5 + c * 60 + noise % 4]
    return (kinds[seed % 4] & 255).astype(np.uint8)


def of_yolo(image, r):
    """The lines of ultralytics' `RandomHSV`, for RGB."""
    x = np.arange(0, 256, dtype=r.dtype)
    hue = ((x + r[0] * 180) % 180).astype(image.dtype)
    saturation = np.clip(x * (r[1] + 1), 0, 255).astype(image.dtype)
    value = np.clip(x * (r[2] + 1), 0, 255).astype(image.dtype)
    saturation[0] = 0
    h, s, v = cv2.split(cv2.cvtColor(image, cv2.COLOR_RGB2HSV))
    changed = cv2.merge((cv2.LUT(h, hue), cv2.LUT(s, saturation), cv2.LUT(v, value)))
    return cv2.cvtColor(changed, cv2.COLOR_HSV2RGB)


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/picture_ops")
    r = random.Random(0)
    with open(os.path.join(folder, "hsv.jsonl"), "w") as cases, open(os.path.join(folder, "hsv_want"), "wb") as want:
        for number in range(16):
            seed = (r.randrange(1 << 30) << 2) + number % 4
            image = picture(seed)
            if number < 8:
                gains = np.array([r.uniform(-1, 1) * gain for gain in (0.5, 0.9, 0.9)])
                args, out = [gains[0] * 180, gains[1] + 1, 0.0, gains[2] + 1, 0.0], of_yolo(image, gains)
            else:
                shifts = [r.uniform(-most, most) for most in (90, 60, 60)]
                args, out = [shifts[0], 1.0, int(shifts[1]), 1.0, int(shifts[2])], shift_hsv(image, *shifts)
            cases.write(json.dumps({"op": "hsv", "shape": [SIDE, SIDE, 3], "seed": seed, "args": args}) + "\n")
            want.write(out.tobytes())


if __name__ == "__main__":
    main()
