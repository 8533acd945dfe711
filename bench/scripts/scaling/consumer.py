"""Measures the CPU time of the thread that iterates over forebay.Loader.

Usage: consumer.py CONFIG-AS-JSON

Waits for rows do not count: a program cannot receive batches faster than this, however fast
the engine makes them. The best of several epochs counts, after one for warming up. The last line of output is a JSON
object: `items` of an epoch, `cpu_s` of the iterating thread, `versions`.
"""

import json
import sys
import time

import peer_forebay


def main():
    config = json.loads(sys.argv[1])
    loader = peer_forebay.build(config)
    times = []
    for _ in range(1 + config["rounds"]):
        start, items = time.thread_time(), 0
        for x, _ in peer_forebay.batches(loader):
            items += len(x)
        times.append(time.thread_time() - start)
    loader.close()
    print(json.dumps({"items": items, "cpu_s": min(times[1:]), "versions": peer_forebay.versions()}))


main()
