//! `bytes` objects that the engine fills: a sample goes from the page cache right to where Python reads it.
//!
//! An object is made here without contents, under the interpreter's lock, by a thread of Python's that is inside `next`.
//! From then on its [`Row`] is the only reference, so engine threads may write without the lock, until the object goes into
//! a batch and becomes immutable, as Python has it.

use forebay_loader::Result;
use forebay_loader::delivery::{
    Delivery, Device, DirectRows, DirectStorage, PictureDecoder, RowAllocator, RowMemory, TensorMemory,
};
use forebay_loader::error::{Error, ErrorKind};
use forebay_loader::memory::{BatchMemory, Registrar};
use forebay_loader::sync::Arc;
use forebay_loader::topology::Topology;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::any::Any;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Just below the largest block that glibc learns from.
const TEACHING_BYTES: usize = 31 << 20;

/// Where another target takes batches, with rows of bytes in Python's memory.
#[derive(Debug)]
pub(crate) struct WithRows(Arc<dyn Delivery>);

impl WithRows {
    /// Batches go to `target`.
    ///
    /// From now on this process keeps up to twice 31 MiB of what it has freed, if it does not already. By default glibc
    /// gives memory back to the system whenever 128 KiB are free, so every batch of bytes would be made of pages that the
    /// kernel has to zero first: a third of the time of a cached sample of 92 kB. The first large block that is freed
    /// raises that limit, as `mallopt(3)` describes; whoever has trained for a while has freed one. Other allocators do
    /// nothing with it.
    pub(crate) fn new(target: Arc<dyn Delivery>) -> Self {
        // Nothing is written to it, so it has no pages. Without it everything works, slower.
        let _ = Python::try_attach(|py| Row::new(py, TEACHING_BYTES).is_ok());
        Self(target)
    }
}

impl Delivery for WithRows {
    fn device(&self) -> Device {
        self.0.device()
    }

    fn registrar(&self) -> Option<&dyn Registrar> {
        self.0.registrar()
    }

    fn node(&self, topology: &Topology) -> Option<usize> {
        self.0.node(topology)
    }

    fn row_allocator(&self) -> Option<&dyn RowAllocator> {
        Some(self)
    }

    fn picture_decoder(&self) -> Result<Arc<dyn PictureDecoder>> {
        self.0.picture_decoder()
    }

    fn direct_rows(&self) -> Option<&dyn DirectRows> {
        self.0.direct_rows()
    }

    fn direct_storage(&self) -> Result<Arc<dyn DirectStorage>> {
        self.0.direct_storage()
    }

    fn deliver(&self, filled: BatchMemory, bytes: usize) -> Result<Arc<dyn TensorMemory>> {
        self.0.deliver(filled, bytes)
    }
}

impl RowAllocator for WithRows {
    fn allocate(&self, lengths: &[Option<usize>]) -> Result<Vec<Option<Box<dyn RowMemory>>>> {
        let row = |py: Python<'_>, length: usize| Ok(Box::new(Row::new(py, length)?) as Box<dyn RowMemory>);
        Python::try_attach(|py| lengths.iter().map(|length| length.map(|bytes| row(py, bytes)).transpose()).collect())
            .unwrap_or_else(|| Err(Error::new(ErrorKind::Closed, "the interpreter is ending")))
    }
}

/// A `bytes` object in the making.
///
/// Invariant: `bytes .. bytes + len` are the contents of `object`, which lives as long as `self` and to which nobody else
/// has a reference.
#[derive(Debug)]
pub(crate) struct Row {
    object: Py<PyBytes>,
    bytes: NonNull<MaybeUninit<u8>>,
    len: usize,
}

// SAFETY: by the type's invariant the contents belong to this value alone, on whatever thread; the object itself is
// touched under the interpreter's lock only, which `Py` sees to.
unsafe impl Send for Row {}
// SAFETY: `&Row` gives no access to the contents.
unsafe impl Sync for Row {}

impl Row {
    /// An object of `len` bytes that nobody has written to.
    fn new(py: Python<'_>, len: usize) -> Result<Self> {
        let refused = || Error::new(ErrorKind::Full, "Python has no memory for a row of bytes").with("bytes", len);
        let size = isize::try_from(len).map_err(|_| refused())?;
        // SAFETY: the lock is held; without a source the contents are left as they are.
        let object = unsafe { ffi::PyBytes_FromStringAndSize(std::ptr::null(), size) };
        // SAFETY: the call gives a new reference, or NULL with an exception, which `from_owned_ptr_or_err` takes.
        let object = unsafe { Bound::from_owned_ptr_or_err(py, object) }.map_err(|_| refused())?;
        let object = object.cast_into::<PyBytes>().map_err(|_| Error::internal("bytes that are none"))?;
        // SAFETY: the lock is held and the object is a bytes object.
        let bytes = unsafe { ffi::PyBytes_AsString(object.as_ptr()) };
        let bytes = NonNull::new(bytes.cast()).ok_or_else(refused)?;
        Ok(Self { object: object.unbind(), bytes, len })
    }

    /// The object, which the engine has filled.
    pub(crate) fn into_object(self) -> Py<PyBytes> {
        self.object
    }
}

impl RowMemory for Row {
    fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the contents are ours alone by the type's invariant, and `MaybeUninit` asks for no values. Of the empty
        // object, which Python shares, no byte is lent.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
