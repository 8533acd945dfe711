//! DLPack capsules, the only pointers that Python gets.
//!
//! A capsule owns an exported tensor until a consumer takes the tensor and renames the capsule. The destructor of a
//! capsule that was not taken releases the tensor. The consumer of a taken tensor calls the tensor's own deleter, on
//! any thread and without the interpreter's lock.

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

/// Makes a capsule of DLPack 1.0.
///
/// # Errors
///
/// When Python has no memory.
pub(crate) fn versioned(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyCapsule>> {
    let managed = NonNull::new(dlpack::export::<DlManagedTensorVersioned>(tensor)).expect("export returns a box");
    // SAFETY: the pointer is a DlManagedTensorVersioned, as the name states, and the destructor frees exactly that
    // type.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, managed.cast(), VERSIONED, Some(drop_versioned)) }
}

/// Makes a capsule of the form before DLPack 1.0.
///
/// # Errors
///
/// When Python has no memory.
pub(crate) fn legacy(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyCapsule>> {
    let managed = NonNull::new(dlpack::export::<DlManagedTensor>(tensor)).expect("export returns a box");
    // SAFETY: the pointer is a DlManagedTensor, as the name states, and the destructor frees exactly that type.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, managed.cast(), LEGACY, Some(drop_legacy)) }
}

/// Returns the pointer of a capsule that was not taken.
fn untaken<T>(capsule: *mut ffi::PyObject, name: &'static CStr) -> Option<NonNull<T>> {
    // SAFETY: Python calls a destructor with the capsule it belongs to, alive and with the interpreter's lock held.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: the capsule is valid under this name, as checked above.
    NonNull::new(unsafe { ffi::PyCapsule_GetPointer(capsule, name.as_ptr()) }.cast())
}

/// # Safety
///
/// Called by Python as the destructor of a capsule that [`versioned`] made.
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    if let Some(managed) = untaken::<DlManagedTensorVersioned>(capsule, VERSIONED) {
        // SAFETY: the tensor was not taken, so the pointer is still the exported one.
        if let Some(deleter) = unsafe { managed.as_ref() }.deleter {
            // SAFETY: called once, with the pointer that belongs to the deleter.
            unsafe { deleter(managed.as_ptr()) }
        }
    }
}

/// # Safety
///
/// Called by Python as the destructor of a capsule that [`legacy`] made.
unsafe extern "C" fn drop_legacy(capsule: *mut ffi::PyObject) {
    if let Some(managed) = untaken::<DlManagedTensor>(capsule, LEGACY) {
        // SAFETY: the tensor was not taken, so the pointer is still the exported one.
        if let Some(deleter) = unsafe { managed.as_ref() }.deleter {
            // SAFETY: called once, with the pointer that belongs to the deleter.
            unsafe { deleter(managed.as_ptr()) }
        }
    }
}
