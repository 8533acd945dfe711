"""Environment of the figures: the machine, its driver and libraries, limits, versions, and the build."""

import contextlib
import ctypes
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import re
import resource
import shutil
import subprocess

import forebay as fb

from .outcome import so_far
from .scale import cpus

PACKAGES = ("numpy", "pillow", "torch", "torchvision", "cupy-cuda12x", "cupy-cuda13x", "cupy", "jax", "jaxlib", "nvidia-nvjpeg")

VARIABLES = ("LD_LIBRARY_PATH", "PYTHONPATH", "OMP_NUM_THREADS", "PYTORCH_ALLOC_CONF", "RUST_BACKTRACE", "TMPDIR")
PREFIXES = ("FOREBAY_", "CUDA_", "NVIDIA_", "CUFILE_")

SMI_SECONDS = 20
"""Time limit of nvidia-smi, which is slow if the driver is idle."""

IO_URING_SETUP = 425
"""Number of the system call on every architecture."""


def host(scratch):
    """Returns all facts that do not need the device."""
    found = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpu": _first(r"model name\s*:\s*(.*)", _text("/proc/cpuinfo")) or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "cpus_used": cpus(),
        "numa_nodes": len(list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*"))),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "cgroup_memory": _text("/sys/fs/cgroup/memory.max").strip() or "unknown",
        "cgroup_cpu": _text("/sys/fs/cgroup/cpu.max").strip() or "unknown",
        "memlock_bytes": _limit(resource.RLIMIT_MEMLOCK),
        "open_files": _limit(resource.RLIMIT_NOFILE),
        "io_uring": _io_uring(),
        "commit": _commit(),
        "built": _built(),
        "versions": _versions(),
        "environment": {name: value for name, value in os.environ.items() if name in VARIABLES or name.startswith(PREFIXES)},
    }
    so_far(found)
    shared = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
    return {
        **found,
        "driver": (_text("/proc/driver/nvidia/version").splitlines() or ["unknown"])[0],
        "libnvcuvid": _can_load("libnvcuvid.so.1"),
        "shared_memory_bytes": shared.f_blocks * shared.f_frsize if shared else 0,
        "udev": os.path.isdir("/run/udev"),
        "scratch": {"folder": str(scratch), "free_bytes": shutil.disk_usage(scratch).free, "file_system": _file_system(scratch)},
        "nvidia_smi_before": _smi(),
    }


def device(framework):
    """Returns facts about the device and its driver."""
    found = framework.describe()
    so_far(found)
    return {**found, "driver_api": _driver_version()}


def afterwards():
    """Returns clocks and throttle reasons while the device is still warm."""
    return {"nvidia_smi_after": _smi()}


def _text(path):
    with contextlib.suppress(OSError):
        return pathlib.Path(path).read_text(errors="replace")
    return ""


def _first(pattern, text):
    found = re.search(pattern, text)
    return found[1] if found else None


def _limit(which):
    soft, _ = resource.getrlimit(which)
    return "unlimited" if soft == resource.RLIM_INFINITY else soft


def _io_uring():
    """Returns true if this process may make an io_uring."""
    libc, parameters = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(120)
    descriptor = libc.syscall(IO_URING_SETUP, 2, parameters)
    if descriptor < 0:
        return f"refused: {os.strerror(ctypes.get_errno())}"
    os.close(descriptor)
    return "allowed"


def _commit():
    """Returns FOREBAY_COMMIT, or git's commit."""
    named = os.environ.get("FOREBAY_COMMIT")
    command = ["git", "-C", pathlib.Path(__file__).parent, "rev-parse", "HEAD"]
    try:
        return named or subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"
    except OSError:
        # A copy of the files may have no git.
        return "unknown"


def _built():
    """Returns facts about the build of the extension."""
    file = pathlib.Path(fb._forebay.__file__)
    return {"version": fb.__version__, "file": str(file), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def _versions():
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _can_load(library):
    with contextlib.suppress(OSError):
        return bool(ctypes.CDLL(library))
    return False


def _file_system(folder):
    """Returns the mount of a folder."""
    folder, best = os.path.realpath(folder), ("", "unknown")
    for line in _text("/proc/mounts").splitlines():
        source, point, kind, options, *_ = line.split()
        if (folder + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best[0]):
            best = (point, f"{kind} of {source} at {point} ({options[:80]})")
    return best[1]


def _smi():
    """Returns nvidia-smi's facts: width and generation of PCIe, clocks, MIG."""
    try:
        asked = subprocess.run(["nvidia-smi", "-q"], capture_output=True, text=True, timeout=SMI_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not available: {error}"
    return asked.stdout or asked.stderr


def _driver_version():
    """Returns the version of the driver's interface, such as 13000 for 13.0."""
    version = ctypes.c_int()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(os.environ.get("FOREBAY_CUDA_LIBRARY") or "libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return version.value


def libraries():
    """Returns path and version of the loaded driver, nvJPEG and cuFile."""
    found = {}
    for path in sorted(set(re.findall(r"(/\S*(?:nvjpeg|libcuda\.so|cufile)\S*)", _text("/proc/self/maps")))):
        found[path] = _library_version(path)
    return found


def _library_version(path):
    """Returns the version of a library: the file's name has it, except for nvJPEG."""
    if "nvjpeg" not in path:
        return os.path.basename(os.path.realpath(path))
    numbers = []
    for which in range(3):
        number = ctypes.c_int()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(path).nvjpegGetProperty(which, ctypes.byref(number))
        numbers.append(str(number.value))
    return ".".join(numbers)
