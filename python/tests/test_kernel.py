"""The engine's CUDA source is compiled by NVRTC, which comes with torch and needs neither a GPU nor a driver."""

import ctypes
import pathlib

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
    """PTX, or the compiler's log as a ValueError."""
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"crop_resize.cu", 0, None, None) == 0
    options = [option.encode() for option in options]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    (nvrtc.nvrtcGetProgramLogSize if failed else nvrtc.nvrtcGetPTXSize)(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    (nvrtc.nvrtcGetProgramLog if failed else nvrtc.nvrtcGetPTX)(program, text)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise ValueError(text.value.decode())
    return text.value.decode()


@pytest.mark.parametrize("architecture", ["compute_75", "compute_80", "compute_90", "compute_100"])
def test_the_kernel_compiles_for_every_architecture(nvrtc, architecture):
    ptx = compiled(nvrtc, SOURCE.read_bytes(), "--fmad=false", f"--gpu-architecture={architecture}")
    assert ".visible .entry crop_resize(" in ptx
    # Contracted products and sums would not be the host's.
    assert "fma.rn" not in ptx


def test_a_source_that_is_wrong_is_told(nvrtc):
    with pytest.raises(ValueError, match="undefined"):
        compiled(nvrtc, SOURCE.read_bytes().replace(b"blockIdx.z", b"picture_number"), "--fmad=false")
