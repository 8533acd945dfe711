//! `bytes` objects that the engine fills: a sample is copied once, from the page cache to the memory that Python reads.
//!
//! A Python thread inside `next` makes an object without contents, under the interpreter's lock. Its [`Row`] is then
//! the only reference, so engine threads may write to it without the lock. The object becomes immutable when it enters
//! a batch, as Python requires.

use forebay_loader::Result;
use forebay_loader::delivery::{
    Delivery, Device, DirectRows, DirectStorage, PictureDecoder, RowAllocator, RowMemory, TensorMemory,
};
use forebay_loader::error::{Error, ErrorKind};
use forebay_loader::memory::{BatchMemory, Registrar, prefer_huge_pages};
use forebay_loader::store::FetchMemory;
use forebay_loader::sync::Arc;
use forebay_loader::topology::Topology;
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::any::Any;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Size of a block that raises glibc's threshold: just below its maximum.
const TEACHING_BYTES: usize = 31 << 20;

/// Size from which an allocator takes new pages of the kernel, which are zero.
const LAZY_BYTES: usize = 1 << 20;

/// Bytes of a piece of a long row: just above the largest threshold of glibc, so that the system has each piece again
/// as soon as it is freed.
const PIECE_BYTES: usize = 33 << 20;

/// A wrapped delivery, with rows of bytes in Python's memory.
#[derive(Debug)]
pub(crate) struct WithRows(Arc<dyn Delivery>);

impl WithRows {
    /// Wraps `target`.
    ///
    /// The process then keeps up to 2 x 31 MiB of freed memory. By default glibc returns memory to the system when 128
    /// KiB are free, so each batch of bytes would use pages that the kernel has to zero first: a third of the time of a
    /// cached sample of 92 kB. The first large block that is freed raises that threshold, see `mallopt(3)`. A process
    /// that has trained for a while has freed one anyway. Allocators besides glibc's ignore it.
    pub(crate) fn new(target: Arc<dyn Delivery>) -> Self {
        // It is never written, so it takes no pages. If it fails, all works, only slower.
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

    fn check(&self) -> Result<()> {
        self.0.check()
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

/// `bytes` object that is not complete yet.
///
/// Invariant: `bytes .. bytes + len` are the contents of `object`, which lives as long as `self` and has no second
/// reference before the row is delivered in a batch.
#[derive(Debug)]
pub(crate) struct Row {
    object: Py<PyBytes>,
    bytes: NonNull<MaybeUninit<u8>>,
    len: usize,
}

// SAFETY: by the type's invariant the contents belong to this value alone, on any thread; `Py` accesses the object
// itself under the interpreter's lock only.
unsafe impl Send for Row {}
// SAFETY: `&Row` gives no access to the contents.
unsafe impl Sync for Row {}

impl Row {
    /// Makes an object of `len` bytes that are not written yet.
    pub(crate) fn new(py: Python<'_>, len: usize) -> Result<Self> {
        let refused = || Error::new(ErrorKind::Full, "Python has no memory for a row of bytes").with("bytes", len);
        let size = isize::try_from(len).map_err(|_| refused())?;
        // SAFETY: the lock is held; without a source the contents stay uninitialised.
        let object = unsafe { ffi::PyBytes_FromStringAndSize(std::ptr::null(), size) };
        // SAFETY: the call returns a new reference, or NULL with an exception; `from_owned_ptr_or_err` handles both.
        let object = unsafe { Bound::from_owned_ptr_or_err(py, object) }.map_err(|_| refused())?;
        let object = object.cast_into::<PyBytes>().map_err(|_| Error::internal("bytes that are none"))?;
        Self::of(object, len)
    }

    /// Makes an object of `len` zeros.
    fn zeroed(py: Python<'_>, len: usize) -> Result<Self> {
        if len < LAZY_BYTES {
            let mut row = Self::new(py, len)?;
            row.bytes_mut().fill(MaybeUninit::new(0));
            return Ok(row);
        }
        // `bytes(len)` is a new object too, of pages that the kernel zeroes when a fetch thread first writes to them.
        let refused = |_| Error::new(ErrorKind::Full, "Python has no memory for an object").with("bytes", len);
        let object = py.get_type::<PyBytes>().call1((len,)).map_err(refused)?;
        let object = object.cast_into::<PyBytes>().map_err(|_| Error::internal("bytes that are none"))?;
        let mut row = Self::of(object, len)?;
        prefer_huge_pages(row.bytes_mut());
        Ok(row)
    }

    /// Takes an object of `len` bytes that has no second reference.
    fn of(object: Bound<'_, PyBytes>, len: usize) -> Result<Self> {
        // SAFETY: a token of the lock comes with the object, which is a bytes object.
        let bytes = unsafe { ffi::PyBytes_AsString(object.as_ptr()) };
        let bytes = NonNull::new(bytes.cast()).ok_or_else(|| Error::internal("bytes without contents"))?;
        Ok(Self { object: object.unbind(), bytes, len })
    }

    /// Returns the object of a delivered row: the engine has filled it and has no reference to it any more.
    pub(crate) fn delivered(&self, py: Python<'_>) -> Py<PyBytes> {
        self.object.clone_ref(py)
    }

    /// Returns the object, which the engine has filled.
    pub(crate) fn into_object(self) -> Py<PyBytes> {
        self.object
    }
}

/// Returns a text as a `str`. The memory of a long text is released piece by piece while the object grows, so it is not
/// in memory twice.
///
/// # Errors
///
/// MemoryError; a [long](is_long) text is lost then.
pub(crate) fn text(py: Python<'_>, text: String) -> PyResult<Bound<'_, PyAny>> {
    let mut pieces = pieces(text.into_bytes());
    let mut whole = pieces.pop().map_or_else(|| piece_text(py, Vec::new()), |first| piece_text(py, first))?;
    while let Some(piece) = pieces.pop() {
        let piece = piece_text(py, piece)?;
        let mut object = whole.into_ptr();
        // SAFETY: both are `str` objects and alive, and the lock is held. The only reference to the first one is passed
        // on: the object grows in place, or a new one replaces it.
        unsafe { ffi::PyUnicode_Append(&raw mut object, piece.as_ptr()) };
        // SAFETY: the call leaves a new reference, or NULL with an exception.
        whole = unsafe { Bound::from_owned_ptr_or_err(py, object) }?;
    }
    Ok(whole)
}

/// Returns true for a row of `bytes` bytes that is released while its object is made.
pub(crate) fn is_long(bytes: usize) -> bool {
    bytes > PIECE_BYTES
}

/// Moves a row into a `bytearray`, piece by piece from its end.
///
/// # Errors
///
/// MemoryError; the row is whole then.
pub(crate) fn moved<'py>(py: Python<'py>, row: &mut Vec<u8>) -> PyResult<Bound<'py, PyAny>> {
    let size = isize::try_from(row.len()).map_err(|_| PyMemoryError::new_err("a row is too long"))?;
    // SAFETY: the lock is held; without a source the contents stay uninitialised.
    let object = unsafe { ffi::PyByteArray_FromStringAndSize(std::ptr::null(), size) };
    // SAFETY: the call returns a new reference, or NULL with an exception.
    let object = unsafe { Bound::from_owned_ptr_or_err(py, object) }?;
    // SAFETY: the lock is held, and the object is a bytearray.
    let start = unsafe { ffi::PyByteArray_AsString(object.as_ptr()) }.cast::<MaybeUninit<u8>>();
    // SAFETY: the contents are `row.len()` bytes, and no other code has the object yet.
    let contents = unsafe { std::slice::from_raw_parts_mut(start, row.len()) };
    while !row.is_empty() {
        let cut = row.len().saturating_sub(PIECE_BYTES);
        for (to, from) in contents[cut..].iter_mut().zip(&row[cut..]) {
            to.write(*from);
        }
        row.truncate(cut);
        row.shrink_to_fit();
    }
    Ok(object)
}

/// Divides UTF-8 into pieces of whole characters, the last one first.
fn pieces(mut text: Vec<u8>) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    while text.len() > PIECE_BYTES {
        let is_inside = |at: &usize| text[*at] & 0xC0 == 0x80;
        let cut = (1..text.len() - PIECE_BYTES + 1).rev().find(|at| !is_inside(at)).unwrap_or(1);
        pieces.push(text.split_off(cut));
        text.shrink_to_fit();
    }
    pieces.push(text);
    pieces
}

fn piece_text(py: Python<'_>, piece: Vec<u8>) -> PyResult<Bound<'_, PyAny>> {
    let bytes = isize::try_from(piece.len()).map_err(|_| PyMemoryError::new_err("a text is too long"))?;
    // SAFETY: the lock is held, and the bytes are readable.
    let object = unsafe { ffi::PyUnicode_FromStringAndSize(piece.as_ptr().cast(), bytes) };
    // SAFETY: the call returns a new reference, or NULL with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, object) }
}

/// Part of a [`Row`] that fetch threads fill, or all of it.
///
/// Invariant: the bytes `start .. start + len` of the row were written before, and no second slice has any of them.
#[derive(Debug)]
pub(crate) struct RowSlice {
    row: Arc<Row>,
    start: usize,
    len: usize,
}

impl RowSlice {
    /// Makes an object of `len` bytes. Callable on a thread of Python without the interpreter's lock.
    pub(crate) fn new(len: usize) -> Result<Self> {
        let ending = || Err(Error::new(ErrorKind::Closed, "the interpreter is ending"));
        let row = Python::try_attach(|py| Row::zeroed(py, len)).unwrap_or_else(ending)?;
        Ok(Self { row: Arc::new(row), start: 0, len })
    }

    /// Returns the object, which is complete.
    ///
    /// # Errors
    ///
    /// `Internal` while further slices exist.
    pub(crate) fn into_object(self) -> Result<Py<PyBytes>> {
        let row = Arc::into_inner(self.row).ok_or_else(|| Error::internal("a part of an object is still in use"))?;
        Ok(row.into_object())
    }
}

impl FetchMemory for RowSlice {
    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        let bytes = self.row.bytes.as_ptr().wrapping_add(self.start).cast();
        // SAFETY: by the invariant these bytes are within the row, are written, and belong to this slice alone.
        unsafe { std::slice::from_raw_parts_mut(bytes, self.len) }
    }

    fn split_front(&mut self, bytes: usize) -> Box<dyn FetchMemory> {
        let len = bytes.min(self.len);
        let front = Self { row: self.row.clone(), start: self.start, len };
        self.start += len;
        self.len -= len;
        Box::new(front)
    }

    fn join(&mut self, next: Box<dyn FetchMemory>) {
        if let Ok(next) = next.into_any().downcast::<Self>()
            && Arc::ptr_eq(&self.row, &next.row)
            && next.start == self.start + self.len
        {
            self.len += next.len;
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl RowMemory for Row {
    fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the contents belong to this value alone by the type's invariant, and `MaybeUninit` needs no values.
        // The empty object, which Python shares, has no bytes to write.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
