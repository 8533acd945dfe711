"""Jobs of the example, one after the other: the import of torch takes longer than any of them.

The first argument is the folder of the records, the second one the URL of the data set, which is written first. Each line of
standard input has the arguments of a job in one cloud, as JSON. The answers are lines: the process group of its ranks, and its
result once all of them have ended. The record of a rank has the samples of each step. At the step `--stop` the ranks report it
and wait to be killed.
"""

import argparse
import json
import os
import signal
import sys
import traceback
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "three_clouds"
sys.path.insert(0, str(EXAMPLE))

import torch  # noqa: E402
import train as example  # noqa: E402
import write_data  # noqa: E402


def main():
    # The first optimizer imports hundreds of modules, here for all ranks.
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
    folder, data = Path(sys.argv[1]), sys.argv[2]
    writer = fork(0, write_data.write, data)
    report("written" if os.waitpid(writer, 0)[1] == 0 else "failed")
    parser = argparse.ArgumentParser()
    parser.add_argument("cloud")
    parser.add_argument("--machines", type=int, required=True)
    parser.add_argument("--per-machine", type=int, required=True)
    parser.add_argument("--stop", type=int)
    for line in sys.stdin:
        args, rest = parser.parse_known_args(json.loads(line))
        args.folder = folder
        children = [fork(0, run, 0, args, rest)]
        report(children[0])
        children += [fork(children[0], run, rank, args, rest) for rank in range(1, args.machines * args.per_machine)]
        report("failed" if any([os.waitpid(child, 0)[1] for child in children]) else "finished")


def report(line):
    os.write(1, f"{line}\n".encode())


def fork(group, call, *arguments):
    """Calls a function in a child, in its own process group if `group` is 0."""
    child = os.fork()
    if child:
        os.setpgid(child, group or child)
        return child
    code = 1
    try:
        os.setpgid(0, group)
        # A job that never ends fails.
        signal.alarm(600)
        call(*arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def run(rank, args, rest):
    machine, local_rank = divmod(rank, args.per_machine)
    name, ranks = f"{args.cloud}{machine}", args.machines * args.per_machine
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "GROUP_RANK": str(machine)}
    os.environ |= {"LOCAL_RANK": str(local_rank), "LOCAL_WORLD_SIZE": str(args.per_machine)}
    # The group exists when forebay looks for these.
    os.environ |= {"MASTER_ADDR": "head", "MASTER_PORT": "1"}
    os.environ |= json.loads((args.folder / "environments.json").read_text())[name]
    meeting = f"file://{args.folder / args.cloud}.meeting"
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)

    def before_step(step, batch):
        with open(args.folder / f"{args.cloud}.{rank}.jsonl", "a") as file:
            file.write(json.dumps([step, batch["id"].tolist()]) + "\n")
        if step == args.stop:
            report("stopped")
            signal.pause()

    example.train(example.arguments([*rest, "--shards", str(args.folder / "disks" / name)]), before_step)


if __name__ == "__main__":
    main()
