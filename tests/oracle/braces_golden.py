"""Writes the expansions of braces by the package that WebDataset uses: tests/data/sources/braces.jsonl.

    python tests/oracle/braces_golden.py

Each line is a pattern and its names, or null where the package raises an error.
"""

import json
import os
import random

import braceexpand

HERE = os.path.dirname(os.path.abspath(__file__))

PATTERNS = [
    "", "a.tar", "train-{000000..000012}.tar", "s3://b/{train,val}-{00..03}.tar", "{a,b}{c,d}", "{a,b{c,d}}e",
    "{1..10..3}", "{10..1..3}", "{1..10..-3}", "{1..10..0}", "{01..3}", "{1..03}", "{00..2}", "{-2..2}", "{-02..2}",
    "{2..-02}", "{0..-0}", "{-0..1}", "{00..00}", "{5..5}", "{a..e}", "{e..a}", "{a..e..2}", "{e..a..2}", "{A..c}",
    "{Z..a}", "{a..Z}", "{c..A}", "{Y..A..5}", "{A..A}", "{a..z..30}", "{1..a}", "{a..1}", "{aa..c}", "{1..}", "{..2}",
    "{1...3}", "{1..2..3..4}", "{1..2..x}", "{1..2..}", "{+1..2}", "{ 1..2}", "{1.5..2}", "{--1..2}", "{1..2,7}",
    "{1..2,{5..6}}", "{}", "{,}", "{,,}", "a{}b", "{a}", "{a}{b,c}", "{{a,b}}", "{{a}}", "{{1..2}}", "{a,{b}}",
    "{a,b}}", "{{a,b}", "{", "}", "}{", "a}b{c", "a}{b{c}", "}{{}", "}{{1..2}", "}{1,2}{", "\\{a,b\\}", "{a\\,b,c}",
    "{a,b\\}c}", "\\\\{1,2}", "\\{1..2}", "{1\\..2}", "a\\", "{a,b}\\", "{a,b\\\\}", "\\a", "\\\\", "{a\\{,b}", "{ü,é}.tar",
    "\\ü{1..2}", "{a b,c d}", "${NAME}.tar", "{a,b,{c..e},{1..3}{x,y}}", "*{1,2}?", "{x,y}.{tar,tar.gz}",
    "pipe:aws s3 cp s3://b/{0..2}.tar -", "{0099..0101}", "{9..11}", "{-9..-11}", "{0..9..4}{a..c..2}", "line\\\nbreak{1,2}",
]
SYMBOLS = ["{", "{", "}", "}", ",", ",", "..", "\\", "a", "b", "Z", "0", "1", "7", "12", "-", "03", "{1..3}", "{c,d}", "{b..D}"]
RANDOM_CASES = 1500
NAMES_MAX = 60


def expansion(pattern):
    """Names of a pattern, or None for an error."""
    try:
        return list(braceexpand.braceexpand(pattern))
    except braceexpand.UnbalancedBracesError:
        return None


def main():
    rng = random.Random(25)
    cases = {pattern: expansion(pattern) for pattern in PATTERNS}
    while len(cases) < len(PATTERNS) + RANDOM_CASES:
        pattern = "".join(rng.choices(SYMBOLS, k=rng.randint(2, 14)))
        names = expansion(pattern)
        # Most random patterns have an odd brace.
        if pattern in cases or (names is None and rng.random() < 0.95) or len(names or []) > NAMES_MAX:
            continue
        cases[pattern] = names
    path = os.path.join(HERE, "..", "data", "sources", "braces.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for case in cases.items():
            file.write(json.dumps(case, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
