"""linear.c in Python with ctypes and numpy, without the package `forebay`: python linear.py LIBFOREBAY FOLDER"""

import ctypes as c
import json
import sys

import numpy as np

SAMPLES, INPUTS, EPOCHS, CHECKPOINT_AFTER = 1000, 4, 10, 110
OK, END = 0, 1
FLOAT, ARRAY = 5, 8
DTYPES = {(0, 64): np.int64, (1, 16): np.uint16, (2, 32): np.float32}
"""numpy's types by DLPack's code and number of bits: those that this program needs, and two more."""


class Value(c.Structure):
    """ForebayValue."""

    _fields_ = [
        ("column", c.c_char_p),
        ("kind", c.c_uint32),
        ("ndim", c.c_uint32),
        ("integer", c.c_int64),
        ("number", c.c_double),
        ("data", c.c_void_p),
        ("len", c.c_size_t),
        ("type_name", c.c_char_p),
        ("shape", c.POINTER(c.c_uint64)),
    ]


class TensorView(c.Structure):
    """ForebayTensorView."""

    _fields_ = [
        ("data", c.c_void_p),
        ("bytes", c.c_size_t),
        ("shape", c.POINTER(c.c_int64)),
        ("ndim", c.c_uint32),
        ("dtype_code", c.c_uint8),
        ("dtype_bits", c.c_uint8),
        ("device_type", c.c_int32),
        ("device_id", c.c_int32),
    ]


library = c.CDLL(sys.argv[1])
library.forebay_last_error.restype = c.c_char_p
Handle = c.c_void_p


def call(name, *arguments):
    """Calls a function and returns its status. Handles must be Handle: a plain int would be cut to 32 bits."""
    status = getattr(library, f"forebay_{name}")(*arguments)
    if status not in (OK, END):
        raise RuntimeError(f"{library.forebay_last_error().decode()} (status {status})")
    return status


def free(name, handle):
    function = getattr(library, f"forebay_{name}_free")
    function.restype = None
    function(handle)


def write_data(folder):
    columns = {"x": f"ndarray:float32:{INPUTS}", "y": "float32"}
    config = json.dumps({"out": folder, "columns": columns, "hashes": ["xxh64"]})
    writer = Handle()
    call("writer_new", config.encode(), c.byref(writer))
    shape = (c.c_uint64 * 1)(INPUTS)
    seed = 1
    for _ in range(SAMPLES):
        x = np.empty(INPUTS, np.float32)
        for k in range(INPUTS):
            seed = (seed * 1664525 + 1013904223) % (1 << 32)
            x[k] = (seed >> 8) / (1 << 23) - 1
        y = x[0] - 2 * x[1] + 3 * x[2] + x[3] / 2 + 0.25
        values = (Value * 2)(
            Value(column=b"x", kind=ARRAY, type_name=b"float32", data=x.ctypes.data, len=x.nbytes, shape=shape, ndim=1),
            Value(column=b"y", kind=FLOAT, number=y),
        )
        call("writer_write", writer, values, c.c_size_t(2))
    call("writer_finish", writer)
    free("writer", writer)


def array(batch, name):
    """An output as a numpy array in the batch's memory, valid until the batch is freed."""
    output, view = c.c_size_t(), TensorView()
    call("batch_find", batch, name.encode(), c.byref(output))
    call("batch_view", batch, output, c.byref(view))
    dtype = DTYPES[view.dtype_code, view.dtype_bits]
    memory = (c.c_char * view.bytes).from_address(view.data)
    return np.frombuffer(memory, dtype).reshape(view.shape[: view.ndim])


def train_step(weights, batch):
    x, y = array(batch, "x"), array(batch, "y")
    x = np.column_stack([x, np.ones(len(x))])
    weights -= x.T @ (x @ weights - y) / len(x)


def open_loader(config):
    loader = Handle()
    call("loader_new", config.encode(), b"cpu", c.byref(loader))
    return loader


def main(folder):
    write_data(folder)
    config = json.dumps({"streams": [{"local": folder}], "batch_size": 50, "shuffle": True})
    loader = open_loader(config)
    weights = np.zeros(INPUTS + 1)
    batches = 0
    for _ in range(EPOCHS):
        call("loader_start_epoch", loader)
        batch = Handle()
        while call("loader_next", loader, c.byref(batch)) == OK:
            train_step(weights, batch)
            free("batch", batch)
            batches += 1
            if batches == CHECKPOINT_AFTER:
                # A new loader continues after this batch.
                state = c.c_char_p()
                call("loader_state", loader, c.byref(state))
                free("loader", loader)
                loader = open_loader(config)
                call("loader_load_state", loader, state, c.c_uint32(1))
                call("loader_start_epoch", loader)
                free("string", state)
    free("loader", loader)
    print("%d batches, w = %.3f %.3f %.3f %.3f, b = %.3f" % (batches, *weights))


main(sys.argv[2])
