"""What handing out batches costs the thread that iterates over forebay.Loader.

Usage: consumer.py CONFIG-AS-JSON

Its CPU time is counted, not the time that it waits for rows: a program cannot get batches faster than this, however fast
the engine makes them. The best of several epochs counts, after one that warms up. The last line that is printed is a JSON
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
