"""Ranks of a process group: forks of a server that has imported torch. The import takes much longer than a test."""

import json
import multiprocessing
import multiprocessing.connection
import os
import textwrap
import traceback

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["forebay.checkpoint.distributed", "torch.distributed.checkpoint", "torch.distributed.tensor"])

LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def run(body, results, ranks, is_grouped=True, **names):
    """Runs the code `body` on each rank, and returns the findings of each.

    The code has `rank`, `ranks`, `results`, the given `names`, and the dictionary `found`, which is returned through JSON. It
    calls `init_group` by itself if `is_grouped` is false.
    """
    results.mkdir(exist_ok=True)
    (results / "store").unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    names = {**names, "ranks": ranks, "results": str(results)}
    body = "init_group()\n" * is_grouped + textwrap.dedent(body)
    arguments = (body, environment, names)
    processes = [FORKS.Process(target=_main, args=(rank, *arguments)) for rank in range(ranks)]
    for process in processes:
        process.start()
    try:
        _wait(processes, results)
    finally:
        for process in processes:
            process.kill()
            process.join()
    return [json.loads((results / f"{rank}.json").read_text()) for rank in range(ranks)]


def _wait(processes, results):
    running = {process.sentinel: (rank, process) for rank, process in enumerate(processes)}
    while running:
        ended = multiprocessing.connection.wait(running, 600)
        assert ended, f"the ranks {[rank for rank, _ in running.values()]} have not ended"
        for sentinel in ended:
            rank, process = running.pop(sentinel)
            process.join()
            error = results / f"{rank}.error"
            assert process.exitcode == 0, error.read_text() if error.exists() else f"rank {rank} ended: {process.exitcode}"


def _main(rank, body, environment, names):
    """Runs on a rank. The server has the environment and the folder of the time of its start."""
    os.environ.clear()
    os.environ.update(environment)
    results, ranks = names["results"], names["ranks"]
    try:
        import torch
        import torch.distributed as dist

        def init_group():
            store = dist.FileStore(f"{results}/store", ranks)
            dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)

        torch.set_num_threads(1)
        names = {**names, "rank": rank, "found": {}, "torch": torch, "dist": dist, "init_group": init_group}
        exec(compile(body, "the body", "exec"), names)
        with open(f"{results}/{rank}.json", "w") as file:
            json.dump(names["found"], file)
        # Without the end of the group gloo's threads may abort the process while it ends.
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        with open(f"{results}/{rank}.error", "w") as file:
            traceback.print_exc(file=file)
        raise
