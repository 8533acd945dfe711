"""FOREBAY_VECTORS: fewer vector instructions, the same pixels."""

import platform

import pytest
from loaders import alone

LEVELS = ["neon", "none"] if platform.machine() == "aarch64" else ["avx512", "avx2", "none"]
CODE = """
    import hashlib
    import forebay as fb
    hashes = hashlib.sha256()
    image = fb.Image("image", fb.RandomResizedCrop(48), fb.RandomHorizontalFlip())
    with fb.Loader(local={folder!r}, fields={{"x": image}}, batch_size=16, framework="numpy") as loader:
        for batch in loader:
            hashes.update(batch["x"].tobytes())
    print(hashes.hexdigest())
"""


def digest(folder, **env):
    done = alone(CODE.format(folder=str(folder)), **env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pixels_are_the_same_with_all_vector_instructions(pictures):
    best = digest(pictures)
    assert [digest(pictures, FOREBAY_VECTORS=vectors) for vectors in LEVELS] == [best] * len(LEVELS)


@pytest.mark.parametrize("value", ["sse9", "AVX2"])
def test_wrong_values_are_rejected(pictures, value):
    done = alone(CODE.format(folder=str(pictures)), FOREBAY_VECTORS=value)
    assert "ConfigError" in done.stderr
    assert f"{', '.join(LEVELS)}" in done.stderr and value in done.stderr
