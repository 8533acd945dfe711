"""next.c with Python's Loader: next.py CONFIG ROUNDS BATCHES, where CONFIG has the arguments and the length of a sample"""

import json
import sys
import time

import forebay as fb

arguments = json.loads(sys.argv[1])
arguments |= {"order": fb.Order(**arguments["order"]), "engine": fb.Engine(**arguments["engine"])}
rounds, batches = int(sys.argv[2]), int(sys.argv[3])
fields = {"x": fb.Tokens("tokens", length=arguments.pop("length"), dtype="uint16")}
frameworks, versions = ["numpy", "dlpack"], {"forebay": fb.__version__}
try:
    import torch

    frameworks.append("torch")
    versions["torch"] = torch.__version__
except ImportError:
    pass
ns = {}
for framework in frameworks:
    loader = fb.Loader(fields=fields, framework=framework, **arguments)
    ns[framework] = []
    for round in range(rounds):
        epoch = iter(loader)
        while loader.stats()["stages"]["place"]["items"] < batches * (round + 1):
            time.sleep(0.001)
        start = time.perf_counter_ns()
        for _ in range(batches):
            x = next(epoch)["x"]
        ns[framework].append((time.perf_counter_ns() - start) / batches)
        assert next(epoch, None) is None
    loader.close()
print(json.dumps({"ns": ns, "versions": versions}))
