"""Figures: copies, the loader, its peers, a training step. What is compared runs in turn, never at the same time."""

import os
import pathlib
import time

import numpy as np

import forebay as fb

from . import checks


def copies(device, sizes, seconds):
    """Bytes per second of bare copies from page-locked memory, by size."""
    rows = []
    for size in sizes:
        array = np.zeros(size, np.uint8)
        address, stream = device.allocate(size), device.stream()
        device.register(array)
        try:
            best, spent = 0.0, 0.0
            while spent < seconds or best == 0.0:
                begun = time.perf_counter()
                for _ in range(8):
                    device.copy(address, array, stream)
                device.synchronize()
                took = time.perf_counter() - begun
                best, spent = max(best, 8 * size / took), spent + took
        finally:
            device.unregister(array)
            device.end_stream(stream)
            device.free(address)
        rows.append({"bytes": size, "bytes_per_s": best})
    return rows


WARM_UP_BATCHES = 2
"""Not counted: a loader's first batches wait for its threads, and decoders make their memory."""


def _drain(batches, framework, seconds):
    """Iterates for so many seconds, epoch after epoch: batches, wall seconds, CPU seconds of the process."""
    seen = 0
    while True:
        for batch in batches:
            seen += 1
            del batch
            if seen == WARM_UP_BATCHES:
                framework.synchronize()
                cpu, begun = time.process_time(), time.perf_counter()
            elif seen > WARM_UP_BATCHES and time.perf_counter() - begun >= seconds:
                framework.synchronize()
                return seen - WARM_UP_BATCHES, time.perf_counter() - begun, time.process_time() - cpu


def loader_copies(folder, framework, device, batch_size, row_bytes, seconds):
    """Bytes per second of the loader's batches that need no decoding, to be held against bare copies of the same size."""
    fields = {"tokens": fb.Tokens("tokens", length=row_bytes // 2, dtype="uint16")}
    with checks.loader(folder, device, framework.framework, fields=fields, batch_size=batch_size, drop_last=True) as batches:
        count, wall, cpu = _drain(batches, framework, seconds)
    size = batch_size * row_bytes
    return {"bytes": size, "bytes_per_s": count * size / wall, "cpu_seconds_per_s": cpu / wall}


def gpu_direct_storage(folder, framework, device, batch_size, seconds):
    """Bytes per second of rows that go by host memory (out of the page cache, as a rule) and by GPUDirect Storage.

    Returns:
        The figures, or the sentence why there are none.
    """
    rows_by = []
    with checks.loader(folder, "cpu", "numpy", fields={"tokens": fb.Array("tokens")}, batch_size=batch_size) as batches:
        expected = [hash(batch["tokens"].tobytes()) for batch in batches]
    for name, direct in (("host memory", False), ("GPUDirect Storage", True)):
        with checks.loader(
            folder,
            device,
            framework.framework,
            fields={"tokens": fb.Array("tokens")},
            batch_size=batch_size,
            gpu_direct_storage=direct,
        ) as batches:
            rows, digests = 0, []
            for batch in batches:
                array = framework.array(batch["tokens"])
                rows += len(array)
                digests.append(hash(array.tobytes()))
                del batch
            assert digests == expected, f"rows by {name} differ from the host's"
            row_bytes = array.nbytes // len(array)
            stats = batches.stats()
            if direct and not stats["counters"].get("rows_gpu_direct"):
                return " ".join(note for note in stats["notes"] if "GPUDirect" in note) or "cuFile refused every row"
            count, wall, cpu = _drain(batches, framework, seconds)
            counters = {key: value for key, value in batches.stats()["counters"].items() if "gpu_direct" in key}
        size = count / len(expected) * rows * row_bytes
        rows_by.append({"by": name, "bytes_per_s": size / wall, "cpu_seconds_per_s": cpu / wall, **counters})
    return {"rows": rows_by}


def loader_pictures(folder, framework, device, batch_size, side, threads, device_decode, seconds):
    """Pictures per second of the loader, with decoding on the host or on the device, and the CPU it took."""
    with checks.loader(
        folder,
        device,
        framework.framework,
        fields=checks.fields(side),
        batch_size=batch_size,
        threads=threads,
        device_decode=device_decode,
        drop_last=True,
        memory="2gb" if batch_size >= 64 else "256mb",
    ) as batches:
        count, wall, cpu = _drain(batches, framework, seconds)
        stats = batches.stats()
    return {
        "device_decode": device_decode,
        "batch": batch_size,
        "threads": threads or os.cpu_count(),
        "pictures_per_s": count * batch_size / wall,
        "cpus_busy": cpu / wall,
        **checks.counters(stats),
        "stages": stats["stages"],
    }


def torchvision_on_device(framework, files, batch_size, side, seconds):
    """torchvision's decoder on the device and its transforms, in the same process."""
    torch = framework.torch
    import torchvision
    from torchvision.transforms import v2

    transform = v2.Compose([v2.RandomResizedCrop(side, antialias=True), v2.RandomHorizontalFlip()])
    tensors = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in files]
    count, begun, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begun < seconds:
        picked = [tensors[(count + i) % len(tensors)] for i in range(batch_size)]
        pictures = torchvision.io.decode_jpeg(picked, mode=torchvision.io.ImageReadMode.RGB, device=framework.on)
        torch.stack([transform(picture) for picture in pictures])
        count += batch_size
    framework.synchronize()
    wall = time.perf_counter() - begun
    return {
        "torchvision": torchvision.__version__,
        "pictures_per_s": count / wall,
        "cpus_busy": (time.process_time() - cpu) / wall,
    }


class _Files:
    """A data set of files for a DataLoader, with Pillow."""

    def __init__(self, paths, side):
        from torchvision import transforms

        self.paths = paths
        self.transform = transforms.Compose(
            [transforms.RandomResizedCrop(side), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]
        )

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, at):
        from PIL import Image

        with Image.open(self.paths[at]) as picture:
            return self.transform(picture.convert("RGB")), at


PREFETCH_FACTOR = 2
"""Batches that each worker of a DataLoader is ahead: torch's own default."""


def workers_that_fit(wanted, batch_size, side, folder="/dev/shm"):
    """How many of the wanted DataLoader workers the shared memory has room for, and why they are fewer, or None: a worker that
    finds it full dies of SIGBUS. Each has the batches it is ahead and the one that it makes.
    """
    batch_bytes = batch_size * (3 * side * side + 8)
    try:
        shared = os.statvfs(folder)
    except OSError as error:
        return 0, f"{folder}: {error.strerror}"
    fit = shared.f_bavail * shared.f_frsize // ((PREFETCH_FACTOR + 1) * batch_bytes)
    # A file system without blocks has no bound.
    if shared.f_blocks == 0 or fit >= wanted:
        return wanted, None
    free_mb = shared.f_bavail * shared.f_frsize / 1e6
    return fit, f"{folder} has {free_mb:.0f} MB, a worker needs {(PREFETCH_FACTOR + 1) * batch_bytes / 1e6:.0f}: {wanted} were wanted"


def data_loader(framework, folder, files, batch_size, side, workers):
    """A DataLoader with Pillow and torchvision over the same files, repeated so that an epoch is long enough."""
    paths = []
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(files):
        paths.append(pathlib.Path(folder) / f"{number}.jpg")
        paths[-1].write_bytes(file)
    paths *= max(1, 64 * batch_size // len(paths))
    return framework.torch.utils.data.DataLoader(
        _Files(paths, side),
        batch_size=batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        prefetch_factor=PREFETCH_FACTOR if workers else None,
        pin_memory=framework.on == "cuda",
        persistent_workers=workers > 0,
    )


def data_loader_rate(framework, folder, files, batch_size, side, workers, seconds):
    """Pictures per second of that DataLoader, on the device."""
    batches, count, begun = data_loader(framework, folder, files, batch_size, side, workers), 0, None
    while begun is None or time.perf_counter() - begun < seconds:
        for pictures, _ in batches:
            pictures.to(framework.on, non_blocking=True)
            if begun is None:
                # The workers have started.
                begun = time.perf_counter()
                continue
            count += batch_size
            if time.perf_counter() - begun >= seconds:
                break
    framework.synchronize()
    wall = time.perf_counter() - begun
    return {"pictures_per_s": count / wall}


def training(framework, source, model, batch_size, warm_up, steps, seconds_max):
    """Steps of torchvision's `model` in bf16 on batches of `source`, a function that gives pairs of pictures and labels on the
    device: pictures per second, and the share of the time in which the step waited for its batch. The first `warm_up` steps
    do not count, and none begins after so many seconds of the others.
    """
    torch = framework.torch
    import torchvision.models

    model = torchvision.models.get_model(model).to(framework.on, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    waited, begun, done = 0.0, None, 0
    batches = iter(source())
    for step in range(warm_up + steps):
        if step == warm_up:
            framework.synchronize()
            waited, begun = 0.0, time.perf_counter()
        asked = time.perf_counter()
        if done and asked - begun > seconds_max:
            break
        pictures, labels = next(batches)
        waited += time.perf_counter() - asked
        with torch.autocast(framework.on, dtype=torch.bfloat16):
            pictures = pictures.to(memory_format=torch.channels_last).float() / 255
            loss = torch.nn.functional.cross_entropy(model(pictures), labels % 1000)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        # One step ahead at most, so that waiting for a batch shows as waiting.
        framework.synchronize()
        done += step >= warm_up
    wall = time.perf_counter() - begun
    return {"steps": done, "pictures_per_s": done * batch_size / wall, "share_waiting_for_data": waited / wall}
