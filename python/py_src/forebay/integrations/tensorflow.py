"""A loader as a `tf.data.Dataset`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import tensorflow as tf

from ..errors import ConfigError
from .._loader import Loader
from ._checks import one_device, refuse

__all__ = ["dataset"]


def dataset(loader: Loader, element_spec: Any = None, **others: Any) -> tf.data.Dataset[Any]:
    """Returns the batches of `loader` as a `tf.data.Dataset`, one epoch for each iteration over it.

    Its elements are the loader's batches, after `transform`. With `framework="tensorflow"` they are not copied. Text and
    bytes are string tensors, and lists of arrays of different shapes are one `tf.RaggedTensor`. Nothing is taken ahead:
    `loader.state_dict()` is the position after the last element, unless a later `prefetch` takes elements ahead. Its `len` is the
    batches of a whole epoch; a dataset that is made of it has an unknown `len`.

    Args:
        loader: The loader, for one device.
        element_spec: Types of an element, as of `tf.data.Dataset.from_generator`. None: the types of a first batch, which is
            made for this and delivered later; a `transform` is called twice with it.
        **others: Nothing. Batch size, threads and the like are the loader's.

    Raises:
        ConfigError: This is no loader, or one with several devices; there are more arguments; or its state is the end of an
            epoch, and there is no `element_spec`.
    """
    one_device("dataset", loader)
    refuse("dataset", others)
    if element_spec is None:
        try:
            example = loader.adapter.peek()
        except StopIteration:
            raise ConfigError("the loaded state is the end of an epoch, which has no batch that shows its types: pass element_spec") from None
        # A transform may have changed the number of rows, and batches are padded to different lengths.
        element_spec = _spec(example, loader.adapter.has_fixed_shapes, loader.adapter.padded)
    batches = _dataset(lambda: iter(loader), element_spec)
    # Keras takes the batches of the first epoch for all epochs, and warns at its end, if they are not known. TensorFlow's own
    # assertion of them would be an error in an epoch that is resumed.
    batches.cardinality = lambda: tf.constant(len(loader), tf.int64)
    return batches


def view(batches: Callable[[], Iterator[Any]], example: Any) -> tf.data.Dataset[Any]:
    """Returns a dataset of the batches that `batches` yields in each iteration, which are like `example`."""
    return _dataset(batches, _spec(example, is_full=False))


def _dataset(batches: Callable[[], Iterator[Any]], element_spec: Any) -> tf.data.Dataset[Any]:
    view = tf.data.Dataset.from_generator(lambda: map(_batch, batches()), output_signature=element_spec)
    options = tf.data.Options()
    # The optimiser would otherwise add a prefetch at the end.
    options.experimental_optimization.inject_prefetch = False
    return view.with_options(options)


def _batch(batch: Any) -> Any:
    """Returns a batch with tensors instead of lists.

    Raises:
        ConfigError: The batch is a list, which may be outputs or the rows of one output.
    """
    if isinstance(batch, list):
        raise ConfigError(
            "a transform returned a list, which TensorFlow takes for the rows of one output: return a tuple or a dict of outputs, "
            "or a tensor"
        )
    return _element(batch)


def _element(batch: Any) -> Any:
    """Returns tensors instead of lists, which are the rows of an output."""
    if isinstance(batch, dict):
        return {name: _tensor(value) for name, value in batch.items()}
    return tuple(map(_tensor, batch)) if isinstance(batch, tuple) else _tensor(batch)


def _tensor(value: Any) -> Any:
    if isinstance(value, (dict, tuple)):
        return _element(value)
    if not isinstance(value, list):
        return value if tf.is_tensor(value) else tf.convert_to_tensor(value)
    if isinstance(value[0], (str, bytes)):
        return tf.constant(value, tf.string)
    return tf.ragged.stack(value)


def _spec(batch: Any, is_full: bool, padded: Collection[str] = ()) -> Any:
    """Returns the types of batches like this one; the number of rows is open unless all are full, and the length of rows of
    outputs that are `padded`."""

    def loosened(spec: Any) -> Any:
        if isinstance(spec, tf.RaggedTensorSpec):
            shape = [None if index <= spec.ragged_rank else size for index, size in enumerate(spec.shape)]
            return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
        if is_full or spec.shape.rank in (None, 0):
            return spec
        return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype)

    def with_open_length(spec: Any) -> Any:
        return tf.TensorSpec([*spec.shape[:1], None, *spec.shape[2:]], spec.dtype)

    batch = _batch(batch)
    spec = tf.nest.map_structure(lambda value: loosened(tf.type_spec_from_value(value)), batch)
    if not isinstance(batch, dict):
        return spec
    lengths = {name for name in padded if isinstance(spec.get(name), tf.TensorSpec) and spec[name].shape.rank >= 2}
    return {name: with_open_length(value) if name in lengths else value for name, value in spec.items()}
