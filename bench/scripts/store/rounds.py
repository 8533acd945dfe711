"""Rounds of one client of a store, in a separate process."""

import json
import os
import resource
import sys
import time
from importlib.metadata import version


def cpu_seconds():
    """CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def main(clients):
    """Runs SCRIPT CLIENT CONFIG-AS-JSON, and prints the best round as a line of JSON: seconds, CPU seconds, versions.

    `clients` has, by name, a function that makes a client's work from the configuration, and its packages. The work returns
    the number in the configuration's `expected`. Its start and its imports are not measured.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    make, packages = clients[sys.argv[1]]
    config = json.loads(sys.argv[2])
    work = make(config)
    rounds = []
    for _ in range(config["rounds"]):
        cpu, start = cpu_seconds(), time.perf_counter()
        count = work()
        rounds.append((time.perf_counter() - start, cpu_seconds() - cpu))
        assert count == config["expected"], f"{count} instead of {config['expected']}"
    seconds, cpu = min(rounds)
    versions = {name: version(name) for name in packages}
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "versions": versions}), file=out, flush=True)
    os._exit(0)
