"""Plans one epoch with MosaicML streaming's functions, or permutes with numpy, and reports time and memory.

    plan.py ALGO SAMPLES SHARDS CANONICAL_NODES REPEAT RESUME_AT
"""

import json
import sys
import time
import types
import warnings

import numpy as np


def status(key):
    """A size from /proc/self/status, bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key)) * 1024


def main():
    algo, samples, shards, canonical, repeat, resume_at = sys.argv[1], *map(float, sys.argv[2:])
    samples, shards, canonical, resume_at = int(samples), int(shards), int(canonical), int(resume_at)
    sizes = np.full(shards, samples // shards, np.int64)
    versions = {"numpy": np.__version__}
    if algo == "numpy":
        work = lambda: np.random.default_rng(9176).permutation(samples)
    else:
        import logging

        import streaming
        from streaming import Stream, StreamingDataset
        from streaming.base.batching import generate_work
        from streaming.base.world import World

        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        versions["streaming"] = streaming.__version__
        stream = types.SimpleNamespace() if repeat == 1 else types.SimpleNamespace(repeat=repeat)
        data = types.SimpleNamespace(
            streams=[stream], num_streams=1, shuffle=True, shuffle_algo=algo, shuffle_seed=9176,
            shuffle_block_size=max(4_000_000 // canonical, 1 << 18), partition_algo="relaxed",
            num_canonical_nodes=canonical, batch_size=256, sampling_method="balanced", sampling_granularity=1,
            epoch_seed_change=True, initial_physical_nodes=1, samples_per_shard=sizes,
            sample_offset_per_shard=sizes.cumsum() - sizes, shards_per_stream=np.array([shards]),
            shard_offset_per_stream=np.array([0]),
        )
        data.resample_streams = types.MethodType(StreamingDataset.resample_streams, data)
        data.epoch_size = Stream.apply_weights(data.streams, np.array([sizes.sum()]), None, 9176)
        # One rank, as ours: the reference's plan is for all ranks in any case.
        work = lambda: generate_work("random", data, World(1, 1, 1, 0), 0, resume_at)

    before = status("VmRSS:")
    begin = time.perf_counter()
    ids = work()
    ready_s = time.perf_counter() - begin
    report = {"ready_s": ready_s, "memory_bytes": status("VmHWM:") - before, "versions": versions}
    report["first"] = int(ids.flat[0])
    print(json.dumps(report))


if __name__ == "__main__":
    main()
