//! One output of a batch, for any library that supports DLPack.

use crate::{capsule, enter};
use forebay_loader::batch;
use forebay_loader::dlpack;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

/// Tensor that shares its batch's memory, for `torch.from_dlpack`, `numpy.from_dlpack` and similar functions.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Tensor(batch::Tensor);

impl Tensor {
    pub(crate) fn new(tensor: batch::Tensor) -> Self {
        Self(tensor)
    }
}

#[pymethods]
impl Tensor {
    /// Sizes, rows first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape())
    }

    /// Name of the type, such as "float32".
    #[getter]
    fn dtype(&self) -> &'static str {
        self.0.dtype().name()
    }

    /// The same memory as unsigned integers of as many bits, for libraries without the type.
    fn bits(&self) -> Self {
        Self(self.0.clone().of_bits())
    }

    /// Device type and number of DLPack: (1, 0) is host memory, (2, n) a CUDA device.
    fn __dlpack_device__(&self) -> (i32, i32) {
        let device = dlpack::device(self.0.device());
        (device.device_type, device.device_id)
    }

    /// Returns a capsule with the tensor. The consumer's stream waits for the bytes; nothing is copied.
    ///
    /// Unsupported requests raise BufferError: after a TypeError torch would retry with fewer arguments.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        if copy == Some(true) {
            return Err(PyBufferError::new_err(
                "a batch is delivered without a copy: copy=True is not supported, copy the tensor afterwards",
            ));
        }
        if dl_device.is_some_and(|wanted| wanted != self.__dlpack_device__()) {
            return Err(PyBufferError::new_err(
                "a batch is delivered on its own device: move it to a different device afterwards",
            ));
        }
        let tensor = self.0.clone();
        enter::enter(py, || tensor.memory().order_before(stream))?;
        if max_version.is_some_and(|(major, _)| major >= 1) {
            capsule::versioned(py, tensor)
        } else {
            capsule::legacy(py, tensor)
        }
    }

    fn __repr__(&self) -> String {
        format!("Tensor(shape={:?}, dtype={})", self.0.shape(), self.dtype())
    }
}
