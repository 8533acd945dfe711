"""The engine's CUDA source is compiled by NVRTC, which comes with torch and needs neither a GPU nor a driver."""

import ctypes
import pathlib
import runpy

import pytest

torch = pytest.importorskip("torch")

SOURCE = pathlib.Path(__file__).parents[2] / "gpu/src/kernel/crop_resize.cu"


@pytest.fixture(scope="module")
def nvrtc():
    libraries = sorted(pathlib.Path(torch.__file__).parents[1].glob("nvidia/*/lib/libnvrtc.so.*"))
    if not libraries:
        pytest.skip("this build of torch comes without NVRTC")
    return ctypes.CDLL(str(libraries[0]))


def compiled(nvrtc, source, *options):
    """PTX as the committed file's own script makes it, or the compiler's log as a ValueError."""
    return runpy.run_path(str(SOURCE.with_name("compile.py")))["compiled"](nvrtc, source, [option.encode() for option in options])


@pytest.mark.parametrize("architecture", ["compute_75", "compute_80", "compute_90", "compute_100"])
def test_the_kernel_compiles_for_every_architecture(nvrtc, architecture):
    ptx = compiled(nvrtc, SOURCE.read_bytes(), "--fmad=false", f"--gpu-architecture={architecture}")
    assert ".visible .entry crop_resize(" in ptx and ".visible .entry find_undecoded(" in ptx
    # Contracted products and sums would differ from the host's.
    assert "fma.rn" not in ptx


def test_a_source_with_an_error_is_reported(nvrtc):
    with pytest.raises(ValueError, match="undefined"):
        compiled(nvrtc, SOURCE.read_bytes().replace(b"blockIdx.z", b"picture_number"), "--fmad=false")
