//! Pointers from and to C.

use crate::status::{CallError, CallResult};
use std::ffi::{CStr, CString, c_char};

/// Returns the text at `text`; `name` is the argument's name in messages.
///
/// # Safety
///
/// `text` is null or ends in a NUL, and outlives the result.
pub(crate) unsafe fn text_at<'a>(text: *const c_char, name: &str) -> CallResult<&'a str> {
    if text.is_null() {
        return Err(CallError::argument(format!("{name} is NULL")));
    }
    // SAFETY: not null, and by the contract above NUL-terminated and alive.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|e| CallError::argument(format!("{name} is not UTF-8: {e}")))
}

/// Returns the `len` elements at `data`; `name` is the argument's name in messages.
///
/// # Safety
///
/// `data` is null or points to `len` elements that outlive the result.
pub(crate) unsafe fn slice_at<'a, T>(data: *const T, len: usize, name: &str) -> CallResult<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(CallError::argument(format!("{name} is NULL, but has a length of {len}")));
    }
    if !data.is_aligned() {
        return Err(CallError::argument(format!("{name} is not aligned to {} bytes", align_of::<T>())));
    }
    if len > isize::MAX as usize / size_of::<T>() {
        return Err(CallError::argument(format!("{name} has an impossible length of {len}")));
    }
    // SAFETY: not null, aligned, of a possible length, and by the contract above alive.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// Checked pointer for a result. It is checked before the result is made, so that no result is lost.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Checks the pointer `out`; `name` is the argument's name in messages.
    ///
    /// # Safety
    ///
    /// `out` is null or may be written while the result lives.
    pub(crate) unsafe fn new(out: *mut T, name: &str) -> CallResult<Self> {
        if out.is_null() {
            return Err(CallError::argument(format!("{name} is NULL: the result cannot be written")));
        }
        Ok(Self(out))
    }

    /// Writes the result.
    pub(crate) fn write(&self, value: T) {
        // SAFETY: not null and writable by the contract of `new`; the old value is plain data and needs no drop. C may
        // pass an address without alignment.
        unsafe { self.0.write_unaligned(value) };
    }
}

impl Out<*mut c_char> {
    /// Writes a copy of `text`, which `forebay_string_free` frees.
    pub(crate) fn write_text(&self, text: String) -> CallResult<()> {
        self.write(c_text(text, "the result")?.into_raw());
        Ok(())
    }
}

/// Returns `text` as a C string; `name` is its name in messages.
pub(crate) fn c_text(text: impl Into<Vec<u8>>, name: &str) -> CallResult<CString> {
    CString::new(text).map_err(|_| CallError::argument(format!("{name} contains a NUL, which C texts cannot")))
}

/// Frees a string that a `char **` of this interface received. NULL is fine.
///
/// Threads: any.
///
/// # Safety
///
/// `string` is null or comes from this library and has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_string_free(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: by the contract above it comes from `write_text`, and this is its one release.
        drop(unsafe { CString::from_raw(string) });
    }
}
