//! Memory of numpy arrays that the engine fills, or sends, without a copy.
//!
//! The package passes arrays of bytes, each over the memory of a tensor. An array, and with it the tensor's memory,
//! lives as long as a fetch or an upload has a part of it.

use forebay_loader::Result;
use forebay_loader::error::Error;
use forebay_loader::store::{FetchMemory, UploadBuffer};
use forebay_loader::sync::{Arc, Condvar, Mutex};
use pyo3::prelude::*;
use std::any::Any;
use std::ptr::NonNull;
use std::time::Duration;

/// Array of bytes without gaps.
///
/// Invariant: `bytes .. bytes + len` are the contents of `_array`, which do not move while it has a reference.
#[derive(Debug)]
struct Array {
    /// Keeps the contents alive.
    _array: Py<PyAny>,
    bytes: NonNull<u8>,
    len: usize,
}

// SAFETY: the contents are plain bytes; `Py` accesses the object itself under the interpreter's lock only, also when it
// is dropped.
unsafe impl Send for Array {}
// SAFETY: as for `Send`; `&Array` only reads.
unsafe impl Sync for Array {}

impl Array {
    /// Takes an array that has the array interface of numpy.
    ///
    /// # Errors
    ///
    /// `Internal` for one that is not contiguous bytes, or that is read-only while `is_filled` asks for one to write
    /// to.
    fn of(array: &Bound<'_, PyAny>, is_filled: bool) -> Result<Self> {
        let refused = |_: PyErr| Error::internal("memory for the engine has to be a numpy array");
        let interface = array.getattr("__array_interface__").map_err(refused)?;
        let item = |name: &str| interface.get_item(name).map_err(refused);
        let kind: String = item("typestr")?.extract().map_err(refused)?;
        let shape: Vec<usize> = item("shape")?.extract().map_err(refused)?;
        let (address, is_read_only): (usize, bool) = item("data")?.extract().map_err(refused)?;
        let has_gaps = !item("strides")?.is_none();
        let [len] = shape[..] else { return Err(Error::internal("an array does not have one dimension")) };
        if kind != "|u1" || has_gaps || is_filled && is_read_only {
            return Err(Error::internal("an array without contiguous bytes, or without the right to write"));
        }
        let bytes = NonNull::new(std::ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling());
        Ok(Self { _array: array.clone().unbind(), bytes, len })
    }
}

impl AsRef<[u8]> for Array {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: by the invariant these bytes are alive. The package states that tensors do not change while they are
        // sent.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

/// Returns the memory of an array as bytes to send.
///
/// # Errors
///
/// `Internal` for any object that is not an array of bytes.
pub(crate) fn to_send(array: &Bound<'_, PyAny>) -> Result<UploadBuffer> {
    Ok(UploadBuffer::from_owner(Array::of(array, false)?))
}

/// Memory of an array that fetch threads fill, or a part of it.
///
/// Invariant: no second value has the bytes `start .. start + len` of the array, and the package leaves them alone
/// until the fetch has ended.
#[derive(Debug)]
pub(crate) struct Borrowed {
    whole: Arc<Whole>,
    start: usize,
    len: usize,
}

#[derive(Debug)]
struct Whole {
    array: Array,
    end: Arc<End>,
}

impl Drop for Whole {
    fn drop(&mut self) {
        *self.end.is_released.lock() = true;
        self.end.changed.notify_all();
    }
}

/// Signal that the engine has no part of an array any more.
#[derive(Debug, Default)]
pub(crate) struct End {
    is_released: Mutex<bool>,
    changed: Condvar,
}

impl End {
    /// Waits for at most `limit`; returns true after the release.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let is_released = self.is_released.lock();
        *is_released || *self.changed.wait_timeout(is_released, limit).0
    }
}

impl Borrowed {
    /// Borrows an array to fill it, and returns the signal of its release.
    ///
    /// # Errors
    ///
    /// `Internal` for any object that is not an array of bytes to write to.
    pub(crate) fn new(array: &Bound<'_, PyAny>) -> Result<(Self, Arc<End>)> {
        let array = Array::of(array, true)?;
        let (len, end) = (array.len, Arc::<End>::default());
        Ok((Self { whole: Arc::new(Whole { array, end: end.clone() }), start: 0, len }, end))
    }
}

impl FetchMemory for Borrowed {
    fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.whole.array.bytes.as_ptr().wrapping_add(self.start);
        // SAFETY: by the invariants these bytes are alive, were written before as the bytes of any tensor, and are this
        // value's alone.
        unsafe { std::slice::from_raw_parts_mut(bytes, self.len) }
    }

    fn split_front(&mut self, bytes: usize) -> Box<dyn FetchMemory> {
        let len = bytes.min(self.len);
        let front = Self { whole: self.whole.clone(), start: self.start, len };
        self.start += len;
        self.len -= len;
        Box::new(front)
    }

    fn join(&mut self, next: Box<dyn FetchMemory>) {
        if let Ok(next) = next.into_any().downcast::<Self>()
            && Arc::ptr_eq(&self.whole, &next.whole)
            && next.start == self.start + self.len
        {
            self.len += next.len;
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
