"""Cuts an ImageNet-like folder of JPEG files from real photographs.

Usage: synth_images.py OUT N SEED SOURCE FOLDER

SOURCE `packaged` takes the photographs in scikit-image and scikit-learn (nothing is fetched); `debian` takes
Debian's wallpaper packages (about 220 MB, kept in FOLDER; needs apt-get with its lists up to date, and dpkg-deb);
`folder` takes every JPEG and PNG under FOLDER. Sizes follow ImageNet-1k roughly: the long side is 500 for most,
180 to 1,600 for a tail; quality 75 to 96; a few are grey and a few progressive. Every file depends on the seed and its
number alone. Written as OUT/cls_XXX/img_XXXXXXX.jpg, the layout that torchvision's ImageFolder reads; a picture's class is
the photograph it was cut from, so that a network has something to learn.
"""

import functools
import glob
import multiprocessing
import os
import random
import subprocess
import sys
from pathlib import Path

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    sys.exit(f"{sys.executable} lacks {missing.name}: name an interpreter with numpy and Pillow with --python")

Image.MAX_IMAGE_PIXELS = None
DEBIAN = (
    "gnome-backgrounds",
    "lomiri-wallpapers-16.04",
    "lomiri-wallpapers-20.04",
    "mate-backgrounds",
    "plasma-workspace-wallpapers",
    "ukui-wallpapers",
)
# The photographs in the packages; the remaining pictures are charts, textures and masks.
SKIMAGE = (
    "astronaut.png",
    "chelsea.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "motorcycle_left.png",
    "retina.jpg",
    "rocket.jpg",
)


def packaged():
    """The photographs of scikit-image and scikit-learn."""
    try:
        import skimage
        import sklearn.datasets
    except ImportError as missing:
        sys.exit(f"{sys.executable} lacks {missing.name}: install scikit-image and scikit-learn, or choose different --photos")

    folders = [Path(skimage.__file__).parent / "data", Path(sklearn.datasets.__file__).parent / "images"]
    names = {*SKIMAGE, "china.jpg", "flower.jpg"}
    return [str(p) for folder in folders for p in folder.iterdir() if p.name in names]


def debian(folder):
    """The large photographs of Debian's wallpaper packages."""
    for package in DEBIAN:
        into = f"{folder}/{package}"
        if os.path.isdir(into):
            continue
        os.makedirs(folder, exist_ok=True)
        print(f"fetching {package}", flush=True)
        subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (deb,) = glob.glob(f"{folder}/{package}_*.deb")
        subprocess.run(["dpkg-deb", "-x", deb, f"{into}.part"], check=True)
        os.rename(f"{into}.part", into)
        os.remove(deb)
    # Packages link to a photograph under several names.
    found = {os.path.realpath(p) for e in ("jpg", "jpeg") for p in glob.glob(f"{folder}/**/*.{e}", recursive=True)}
    return [p for p in found if os.path.getsize(p) > 500_000 and "screenshot" not in p]


def folder(path):
    """Every picture under a folder."""
    return [str(p) for p in Path(path).rglob("*") if p.suffix.lower() in (".jpg", ".jpeg", ".png")]


@functools.lru_cache(maxsize=None)
def load(path):
    image = Image.open(path).convert("RGB")
    if max(image.size) > 3000:
        image.thumbnail((3000, 3000), Image.LANCZOS)
    return image


def size(rng):
    """Width and height: mostly 500 by 375 or about, either way up."""
    r = rng.random()
    if r < 0.70:
        if rng.random() < 0.7:
            return 500, rng.choice([333, 375, 375, 375, 400, 334])
        return rng.choice([333, 375]), 500
    if r < 0.93:
        return rng.randint(200, 640), rng.randint(180, 640)
    return rng.randint(800, 1600), rng.randint(600, 1200)


def cut(out, photos, seed, i):
    """Writes file `i`; returns its length."""
    rng = random.Random(f"{seed} {i}")
    label = rng.randrange(len(photos))
    image = load(photos[label])
    w, h = size(rng)
    s = rng.uniform(1.0, 2.2)  # a larger window, then shrunk: keeps the statistics of a photograph
    cw, ch = min(int(w * s), image.size[0]), min(int(h * s), image.size[1])
    x, y = rng.randint(0, image.size[0] - cw), rng.randint(0, image.size[1] - ch)
    piece = np.asarray(image.crop((x, y, x + cw, y + ch)).resize((w, h), Image.LANCZOS)).astype(np.int16)
    # A little sensor noise brings the length of the files to ImageNet's.
    piece = piece + np.random.default_rng((seed, i)).normal(0, rng.uniform(2, 7), piece.shape)
    piece = Image.fromarray(np.clip(piece, 0, 255).astype(np.uint8))
    if rng.random() < 0.02:
        piece = piece.convert("L")
    folder = f"{out}/cls_{label:03d}"
    os.makedirs(folder, exist_ok=True)
    path = f"{folder}/img_{i:07d}.jpg"
    options = {
        "quality": rng.choice([75, 85, 90, 92, 95, 96]),
        "subsampling": rng.choice([0, 2, 2, 2]),
        "progressive": rng.random() < 0.03,
    }
    piece.save(path, **options)
    return os.path.getsize(path)


def main():
    out, n, seed, source, where = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    photos = sorted({"packaged": packaged, "debian": lambda: debian(where), "folder": lambda: folder(where)}[source]())
    if not photos:
        sys.exit(f"no photographs found: {where if source == 'folder' else source}")
    total = 0
    with multiprocessing.get_context("fork").Pool(len(os.sched_getaffinity(0))) as pool:
        lengths = pool.imap_unordered(functools.partial(cut, out, photos, seed), range(n), chunksize=16)
        for done, length in enumerate(lengths, 1):
            total += length
            if done % 1000 == 0 or done == n:
                print(f"{done:,} of {n:,} files, mean {total / done / 1e3:.1f} kB", flush=True)


if __name__ == "__main__":
    main()
