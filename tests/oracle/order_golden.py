"""Records the reference's order for the suite `order`.

    python tests/oracle/order_golden.py          random cases: tests/data/order/cases.jsonl
    python tests/oracle/order_golden.py huge     100 million samples: tests/data/order/huge.jsonl; minutes, and 6 GB
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from order_cases import (  # noqa: E402
    has_ties, meanings, random_case, random_large_case, reference_answer, reference_tensor,
)

SMALL, LARGE = 3_000, 60
# Seeds that the live comparison does not begin with.
FIRST = 1_000_000


def main():
    path = os.path.join(HERE, "..", "data", "order", "cases.jsonl")
    cases = [random_case(FIRST + i) for i in range(SMALL)] + [random_large_case(FIRST + i) for i in range(LARGE)]
    written = 0
    with open(path, "w") as file:
        for case in cases:
            answer = reference_answer(case)
            if "error" in answer:
                names = meanings(answer["error"])
                if not names:
                    continue
                answer = {"error": min(names)}
            elif has_ties(case):
                continue
            file.write(json.dumps({"case": case, "answer": answer}, separators=(",", ":")) + "\n")
            written += 1
    print(f"{written} cases")


def main_huge():
    path = os.path.join(HERE, "..", "data", "order", "huge.jsonl")
    places = [0, 0.5, 0.97, 0.31]
    with open(path, "w") as file:
        for at, (algo, canonical) in enumerate((a, c) for a in ("py1s", "py2s", "py1br", "py1e") for c in (1, 8)):
            resume_at = int(100_000_000 * places[at % len(places)]) // 2_048 * 2_048
            case = {
                "streams": [[5_000] * 20_000], "weights": [None], "shuffle": True, "algo": algo, "seed": 9176,
                "block": None, "partition": "relaxed", "canonical": canonical, "batch": 256, "sampling": "balanced",
                "granularity": 1, "batching": "random", "replication": None, "epoch_size": None, "nodes": 1,
                "ranks": 8, "workers": 1, "epoch": 2,
                "resume": {
                    "epoch": 2, "sample_in_epoch": resume_at, "num_canonical_nodes": canonical, "shuffle_seed": 9176,
                    "initial_physical_nodes": 1,
                },
            }
            ids = reference_tensor(case)[0, 3, 0, 0]
            record = {"algo": algo, "canonical": canonical, "resume_at": resume_at, "batch_of_rank_3": ids.tolist()}
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            print(algo, canonical, flush=True)


if __name__ == "__main__":
    main_huge() if sys.argv[1:] == ["huge"] else main()
