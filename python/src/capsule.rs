//! DLPack capsules: the one place where Python gets a pointer.
//!
//! A capsule owns an exported tensor until a consumer takes it, which it shows by renaming the capsule. One that nobody
//! took gives the tensor back in its destructor. After that the consumer calls the tensor's own deleter, on any thread
//! and without the interpreter's lock.

use forebay_loader::batch::Tensor;
use forebay_loader::dlpack::{self, DlManagedTensor, DlManagedTensorVersioned};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::CStr;
use std::ptr::NonNull;

/// Name of a capsule that holds a `DLManagedTensorVersioned`.
const VERSIONED: &CStr = c"dltensor_versioned";

/// Name of a capsule that holds a `DLManagedTensor`.
const LEGACY: &CStr = c"dltensor";

/// A capsule in the form of DLPack 1.0.
///
/// # Errors
///
/// When Python has no memory.
pub(crate) fn versioned(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyCapsule>> {
    let managed = NonNull::new(dlpack::export_versioned(tensor)).expect("export gives a box");
    // SAFETY: the pointer is a DlManagedTensorVersioned, which is what the name says, and the destructor frees just that.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, managed.cast(), VERSIONED, Some(drop_versioned)) }
}

/// A capsule in the form before DLPack 1.0.
///
/// # Errors
///
/// When Python has no memory.
pub(crate) fn legacy(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyCapsule>> {
    let managed = NonNull::new(dlpack::export(tensor)).expect("export gives a box");
    // SAFETY: the pointer is a DlManagedTensor, which is what the name says, and the destructor frees just that.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, managed.cast(), LEGACY, Some(drop_legacy)) }
}

/// The pointer of a capsule that nobody took.
fn untaken<T>(capsule: *mut ffi::PyObject, name: &'static CStr) -> Option<NonNull<T>> {
    // SAFETY: Python calls a destructor with the capsule it belongs to, alive and with the interpreter's lock held.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: the capsule is valid under this name, as was just asked.
    NonNull::new(unsafe { ffi::PyCapsule_GetPointer(capsule, name.as_ptr()) }.cast())
}

/// # Safety
///
/// Called by Python as the destructor of a capsule that [`versioned`] made.
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    if let Some(managed) = untaken::<DlManagedTensorVersioned>(capsule, VERSIONED) {
        // SAFETY: nobody took the tensor, so it is still the one that was exported.
        if let Some(deleter) = unsafe { managed.as_ref() }.deleter {
            // SAFETY: called once, on the pointer that the deleter came with.
            unsafe { deleter(managed.as_ptr()) }
        }
    }
}

/// # Safety
///
/// Called by Python as the destructor of a capsule that [`legacy`] made.
unsafe extern "C" fn drop_legacy(capsule: *mut ffi::PyObject) {
    if let Some(managed) = untaken::<DlManagedTensor>(capsule, LEGACY) {
        // SAFETY: nobody took the tensor, so it is still the one that was exported.
        if let Some(deleter) = unsafe { managed.as_ref() }.deleter {
            // SAFETY: called once, on the pointer that the deleter came with.
            unsafe { deleter(managed.as_ptr()) }
        }
    }
}
