"""Compares forebay's order with the installed reference's over random cases.

    cargo build -p forebay-tests --bin order_oracle
    python tests/oracle/order_live.py target/debug/order_oracle --count 20000
"""

import argparse
import collections
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from order_cases import has_ties, meanings, random_case, random_large_case, reference_answer  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("oracle", help="the binary order_oracle")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--large", type=int, default=200, help="every how many cases one is large; 0: none")
    parser.add_argument("--show", type=int, default=5, help="differences to print in full")
    args = parser.parse_args()

    child = subprocess.Popen([args.oracle], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    counts = collections.Counter()
    different = []
    for seed in range(args.first, args.first + args.count):
        is_large = args.large and seed % args.large == 0
        case = random_large_case(seed) if is_large else random_case(seed)
        expected = reference_answer(case)
        child.stdin.write(json.dumps(case) + "\n")
        child.stdin.flush()
        actual = json.loads(child.stdout.readline())
        label = f"{case['batching']}/{case['algo'] if case['shuffle'] else 'unshuffled'}"
        if "error" in expected:
            known = meanings(expected["error"])
            if "error" not in actual or (known and actual["error"] not in known):
                different.append((seed, case, expected, actual))
            elif not known:
                counts[f"error of unknown meaning: {expected['error'][:80]}"] += 1
            counts["errors"] += 1
        elif {key: actual.get(key) for key in expected} != expected:
            if has_ties(case):
                counts["ties that differ"] += 1
            else:
                different.append((seed, case, expected, actual))
        else:
            counts["equal"] += 1
            counts["equal, large"] += is_large
            counts[label] += 1
        if (seed - args.first + 1) % 2000 == 0:
            print(f"{seed - args.first + 1} cases, {len(different)} different", flush=True)
    child.stdin.close()
    child.wait()
    for name, count in sorted(counts.items()):
        print(f"{count:8} {name}")
    for seed, case, expected, actual in different[: args.show]:
        print(f"seed {seed}\n  case {json.dumps(case)}\n  reference {expected}\n  ours {actual}")
    print(f"{args.count} cases, {len(different)} different")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
