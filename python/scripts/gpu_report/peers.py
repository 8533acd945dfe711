"""Figures of alternatives: torchvision's decoder on the device, and a DataLoader with Pillow."""

import os
import time

from .rates import Rate

WARM_UP_BATCHES = 3
"""Warm-up batches of torchvision's decoder, which starts CUDA and allocates its memory."""

PREFETCH_FACTOR = 2
"""Prefetched batches of each DataLoader worker: torch's default."""

EPOCH_BATCHES = 4096
"""Epochs of a DataLoader: one is enough, because its workers restart with each epoch."""


def torchvision_on_device(setting, data):
    """Measures torchvision's decoder on the device and its transforms, in the same process."""
    import torchvision
    from torchvision.transforms import v2

    torch, framework, scale = setting.framework.torch, setting.framework, setting.scale
    transform = v2.Compose([v2.RandomResizedCrop(scale.side, antialias=True), v2.RandomHorizontalFlip()])
    tensors = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in data.files]
    count = 0

    def move():
        nonlocal count
        picked = [tensors[(count + i) % len(tensors)] for i in range(scale.batch)]
        pictures = torchvision.io.decode_jpeg(picked, mode=torchvision.io.ImageReadMode.RGB, device=framework.on)
        torch.stack([transform(picture) for picture in pictures])
        count += scale.batch
        return scale.batch

    begun = time.perf_counter()
    for _ in range(WARM_UP_BATCHES):
        move()
    framework.synchronize()
    warm_up = time.perf_counter() - begun
    rate = Rate(move, framework.synchronize, scale.loader_seconds, scale.round_seconds)
    found = {"torchvision": torchvision.__version__, "pictures_per_s": rate.mean, "best_pictures_per_s": rate.best}
    return {**found, "cpus_busy": rate.cpus_busy, "warm_up_seconds": warm_up}


class _Files:
    """Data set of files for a DataLoader, decoded by Pillow, repeated to `length`."""

    def __init__(self, paths, side, length):
        from torchvision import transforms

        self.paths, self.length = paths, length
        self.transform = transforms.Compose(
            [transforms.RandomResizedCrop(side), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]
        )

    def __len__(self):
        return self.length

    def __getitem__(self, at):
        from PIL import Image

        at %= len(self.paths)
        with Image.open(self.paths[at]) as picture:
            return self.transform(picture.convert("RGB")), at


def workers_that_fit(wanted, batch_size, side, folder="/dev/shm"):
    """Returns the number of DataLoader workers that shared memory has room for, and the reason for fewer than wanted,
    or None. A worker dies of SIGBUS if shared memory is full. Each has its prefetched batches and the current one.
    """
    batch_bytes = batch_size * (3 * side * side + 8)
    try:
        shared = os.statvfs(folder)
    except OSError as error:
        return 0, f"{folder}: {error.strerror}"
    fit = shared.f_bavail * shared.f_frsize // ((PREFETCH_FACTOR + 1) * batch_bytes)
    # A file system without blocks has no limit.
    if shared.f_blocks == 0 or fit >= wanted:
        return wanted, None
    free_mb = shared.f_bavail * shared.f_frsize / 1e6
    worker_mb = (PREFETCH_FACTOR + 1) * batch_bytes / 1e6
    return fit, f"{folder} has {free_mb:.0f} MB, a worker needs {worker_mb:.0f}: {wanted} were wanted"


def data_loader(setting, data, workers):
    """Makes a DataLoader with Pillow and torchvision over the same files."""
    scale = setting.scale
    return setting.framework.torch.utils.data.DataLoader(
        _Files(data.paths, scale.side, EPOCH_BATCHES * scale.batch),
        batch_size=scale.batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        prefetch_factor=PREFETCH_FACTOR if workers else None,
        pin_memory=setting.framework.on == "cuda",
        persistent_workers=workers > 0,
    )


def data_loader_rate(setting, data, workers):
    """Measures pictures per second of that DataLoader on the device, and the busy CPUs of its processes. Batches that
    the workers have prefetched before the start do not count.
    """
    framework, scale = setting.framework, setting.scale
    batches = iter(data_loader(setting, data, workers))

    def move():
        pictures, _ = next(batches)
        pictures.to(framework.on, non_blocking=True)
        return scale.batch

    for _ in range(1 + workers * PREFETCH_FACTOR):
        move()
    rate = Rate(move, framework.synchronize, scale.loader_seconds, scale.round_seconds)
    return {"pictures_per_s": rate.mean, "best_pictures_per_s": rate.best, "cpus_busy": rate.cpus_busy}
