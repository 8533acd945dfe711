"""BERT's training samples from files of documents, as MDS."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from glob import glob
from random import Random
from typing import Any

import numpy as np

from .....base.format import MDSWriter
from .....base.util import get_list_arg
from ._masking import Document, Instance, Settings, make_instances

COLUMNS = dict.fromkeys(
    [
        "input_ids",
        "input_mask",
        "segment_ids",
        "masked_lm_positions",
        "masked_lm_ids",
        "masked_lm_weights",
        "next_sentence_labels",
    ],
    "bytes",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of all programs that make samples."""
    parser.add_argument("--compression", type=str, default="zstd:7", help='such as "zstd:7"; "": not compressed')
    parser.add_argument("--hashes", type=str, default="", help="hashes to record, comma-separated")
    parser.add_argument("--size_limit", type=int, default=1 << 26, help="largest raw shard, in bytes")
    parser.add_argument("--vocab_file", type=str, required=True, help="BERT's vocabulary, one token per line")
    parser.add_argument("--do_lower_case", type=int, default=1, help="convert texts to lower case, 0 or 1")
    parser.add_argument("--max_seq_length", type=int, default=128, help="tokens of a sample")
    parser.add_argument("--max_predictions_per_seq", type=int, default=20, help="upper bound of masked tokens of a sample")
    parser.add_argument("--random_seed", type=int, default=12345, help="seed of all random decisions")
    parser.add_argument("--dupe_factor", type=int, default=10, help="passes over each document")
    parser.add_argument("--masked_lm_prob", type=float, default=0.15, help="share of tokens to predict")
    parser.add_argument("--short_seq_prob", type=float, default=0.1, help="share of shorter samples")


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--input_file", type=str, required=True, help="files or patterns, comma-separated")
    parser.add_argument("--output_dir", type=str, required=True, help="folder of the new data set")
    add_arguments(parser)
    return parser.parse_args(arguments)


def read_documents(filenames: Sequence[str], tokenizer: Any) -> Iterator[Document]:
    """Yields the documents of files: sentences of tokens."""
    for filename in filenames:
        document: Document = []
        with open(filename, encoding="utf-8") as lines:
            for line in lines:
                if not line.strip():
                    yield document
                    document = []
                elif tokens := tokenizer.tokenize(line.strip()):
                    document.append(tokens)
        yield document


def to_sample(instance: Instance, tokenizer: Any, settings: Settings) -> dict[str, bytes]:
    """Converts an instance to columns, padded with zeros."""

    def fill(values: list[Any], length: int, dtype: type = np.int32) -> bytes:
        return np.array(values + [0] * (length - len(values)), dtype).tobytes()

    length, predictions = settings.max_seq_length, settings.max_predictions_per_seq
    return {
        "input_ids": fill(tokenizer.convert_tokens_to_ids(instance.tokens), length),
        "input_mask": fill([1] * len(instance.tokens), length),
        "segment_ids": fill(instance.segment_ids, length),
        "masked_lm_positions": fill(instance.masked_positions, predictions),
        "masked_lm_ids": fill(tokenizer.convert_tokens_to_ids(instance.masked_tokens), predictions),
        "masked_lm_weights": fill([1.0] * len(instance.masked_positions), predictions, np.float32),
        "next_sentence_labels": fill([int(instance.is_random_next)], 1),
    }


def main(args: Namespace) -> None:
    """Writes the data set."""
    from transformers import BertTokenizer

    tokenizer = BertTokenizer(args.vocab_file, do_lower_case=bool(args.do_lower_case))
    settings = Settings(
        args.max_seq_length,
        args.max_predictions_per_seq,
        args.masked_lm_prob,
        args.short_seq_prob,
        args.dupe_factor,
    )
    filenames = [name for pattern in get_list_arg(args.input_file) for name in sorted(glob(pattern))]
    if not filenames:
        raise FileNotFoundError(f"there is no file {args.input_file}")
    documents = list(read_documents(filenames, tokenizer))
    words = [word for word in tokenizer.vocab if word not in tokenizer.all_special_tokens]
    instances = make_instances(documents, words, settings, Random(args.random_seed))
    with MDSWriter(
        out=args.output_dir,
        columns=COLUMNS,
        compression=args.compression,
        hashes=get_list_arg(args.hashes),
        size_limit=args.size_limit,
    ) as writer:
        for instance in instances:
            writer.write(to_sample(instance, tokenizer, settings))


if __name__ == "__main__":
    main(parse_args())
