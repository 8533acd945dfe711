"""Compiles crop_resize.cu to crop_resize.ptx with NVRTC, which needs neither a GPU nor a driver.

    python gpu/src/kernel/compile.py [libnvrtc.so.12]

The committed file is NVRTC 12.0's (the Python package nvidia-cuda-nvrtc-cu12): drivers from 525 on take it. A test compares
the digest in its first line with the source, so a change of the source is not forgotten.
"""

import ctypes
import hashlib
import pathlib
import site
import sys

HERE = pathlib.Path(__file__).parent
OPTIONS = [b"--fmad=false", b"--gpu-architecture=compute_70"]


def library():
    """NVRTC: the library that the command line names, or a wheel's."""
    if len(sys.argv) > 1:
        return sys.argv[1]
    found = [path for folder in site.getsitepackages() for path in pathlib.Path(folder).glob("nvidia/*/lib/libnvrtc.so.12")]
    if not found:
        raise SystemExit("NVRTC is missing: install nvidia-cuda-nvrtc-cu12==12.0.140, or name the library")
    return str(found[0])


def compiled(nvrtc, source, options):
    """PTX of `source`, or the compiler's log as a ValueError."""
    program = ctypes.c_void_p()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"crop_resize.cu", 0, None, None) != 0:
        raise ValueError("NVRTC makes no program")
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    (nvrtc.nvrtcGetProgramLogSize if failed else nvrtc.nvrtcGetPTXSize)(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    (nvrtc.nvrtcGetProgramLog if failed else nvrtc.nvrtcGetPTX)(program, text)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise ValueError(text.value.decode())
    return text.value.decode()


def main():
    source = (HERE / "crop_resize.cu").read_bytes()
    try:
        ptx = compiled(ctypes.CDLL(library()), source, OPTIONS)
    except ValueError as log:
        raise SystemExit(str(log)) from None
    head = f"// SHA-256 of crop_resize.cu: {hashlib.sha256(source).hexdigest()}\n"
    (HERE / "crop_resize.ptx").write_text(head + ptx)


if __name__ == "__main__":
    main()
