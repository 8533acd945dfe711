"""A program's own Python for each sample, in workers: the loader's `map`.

    Epoch --outputs--> Mapper.begin --rows--> Workers (threads) --chunk--> caller --> f(sample, rng)
      ^                                                                      |  of threads: here
      |                                                                      |  of processes: Call -> serve, memory shared
      '--batch-- Mapper.finish <--results of all rows-- MappedBatch <--------'  of interpreters

* `options`: `Map`, a plain value;
* `mapper`: the work of one loader: begins and finishes batches, names samples that fail, and leaves them out;
* `batch`: a batch while its rows are mapped; `rows`: the rows that become a batch again, by the types and shapes of their values;
* `calls`: calls of the function, with the generator of each sample, and rows as they were, for a second try;
* `workers`: threads with a queue; each calls the function itself, or has a process or an interpreter that does;
* `processes`, `shared`: a worker process with its main function, and the memory between both;
* `interpreters`: a worker in a separate interpreter.

The consumer takes batches ahead from the engine, which the epoch holds until their turn, so order, states and errors are those
of a loader without a map. A worker has no reference to the loader: dropping the loader ends them.
"""

from .calls import sample_generator
from .options import Map

__all__ = ["Map", "sample_generator"]
