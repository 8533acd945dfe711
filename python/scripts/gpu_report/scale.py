"""Amount of work, and time limits of the kinds of parts."""

import contextlib
import os

KIB, MIB = 1 << 10, 1 << 20

LIMITS_SECONDS = {
    "the device": 60,
    "data": 90,
    "check": 45,
    "copies": 60,
    "loader": 75,
    "peer": 75,
    "training": 75,
    "nvJPEG alone": 75,
    "GPUDirect Storage": 60,
}
"""Time limits of isolated parts by kind: several times the expected time, with a slow start of the driver. A hanging
part leaves time for the remaining parts.
"""

QUICK_LIMIT_SECONDS = 40
"""Time limit with `quick`: the start of the driver and of torch may take most of it."""

DETAIL_OF_LARGE = 0.2
"""Detail of large pictures with small files, for which decoding of regions pays."""


def cpus():
    """Returns the CPUs of this process: its affinity, limited by its cgroup's quota."""
    allowed = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/cpu.max") as file:
        quota, period = map(int, file.read().split())
        return max(1, min(allowed, -(-quota // period)))
    return allowed


class Scale:
    """Amount of work: `quick` is enough to check that all parts run."""

    def __init__(self, quick):
        self.side = 64 if quick else 224
        self.check_pictures = 48 if quick else 400
        # Count, width, height, quality and detail.
        self.sets = ((48, 120, 90, 90, 1.4), (16, 200, 150, 85, DETAIL_OF_LARGE))
        if not quick:
            self.sets = ((512, 500, 375, 90, 1.4), (256, 1024, 768, 85, DETAIL_OF_LARGE))
        # Repetitions of each sample in a measured epoch, so that start and end of the epoch do not dominate.
        self.times = 2 if quick else 64
        self.processes = 1 if quick else cpus()
        self.seconds = 0.05 if quick else 2.0
        self.loader_seconds = 0.1 if quick else 4.0
        self.round_seconds = 0.02 if quick else 0.5
        self.warm_seconds = 0.05 if quick else 2.0
        self.decoder_seconds = 0.02 if quick else 0.4
        self.batch = 16 if quick else 256
        self.copies = (64 * KIB, MIB) if quick else (MIB, 16 * MIB, 147 * MIB)
        # Reduced if there is no room for all data.
        self.rows, self.row_bytes = (64, 64 * KIB) if quick else (4096, 147 * KIB)
        self.decoder_batches = (4, 9) if quick else (32, 128, 256)
        self.shares = (0.0, 0.5, 1.0) if quick else (0.0, 0.25, 0.5, 0.75, 0.875, 1.0)
        self.model, self.warm_up, self.steps = ("resnet18", 1, 3) if quick else ("resnet50", 10, 60)
        # Fewer steps with a slow source.
        self.training_seconds = 15.0
        self.workers = min(2 if quick else 16, cpus())
        self.limits_seconds = {kind: min(limit, QUICK_LIMIT_SECONDS) if quick else limit for kind, limit in LIMITS_SECONDS.items()}

    def data_bytes(self):
        """Estimates the data on disk: files and shards with a tenth of the pixels' bytes, and rows twice."""
        pixels = sum(count * width * height for count, width, height, *_ in self.sets)
        return pixels + 2 * self.rows * self.row_bytes
