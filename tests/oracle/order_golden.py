"""Records the reference's order over random cases for the suite `order`: tests/data/order/cases.jsonl.

    python tests/oracle/order_golden.py
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from order_cases import has_ties, meanings, random_case, random_large_case, reference_answer  # noqa: E402

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


if __name__ == "__main__":
    main()
