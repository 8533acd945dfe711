"""The ranks of the example in one cloud, as a folder and arguments describe them.

The record of a rank has the samples of each step. At the step `--stop` the ranks report it on standard output and wait to
be killed.
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("cloud")
    parser.add_argument("--machines", type=int, required=True)
    parser.add_argument("--per-machine", type=int, required=True)
    parser.add_argument("--stop", type=int)
    args, rest = parser.parse_known_args()
    children = [fork(rank, args, rest) for rank in range(args.machines * args.per_machine)]
    sys.exit(any(os.waitpid(child, 0)[1] for child in children))


def fork(rank, args, rest):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run(rank, args, rest)
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
            os.write(1, b"stopped\n")
            signal.pause()

    example.train(example.arguments([*rest, "--shards", str(args.folder / "disks" / name)]), before_step)


if __name__ == "__main__":
    main()
