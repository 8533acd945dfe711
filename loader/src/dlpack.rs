//! DLPack, the exchange format of tensor libraries: the plain structures and the export of a [`Tensor`].
//!
//! The layout follows DLPack 1.0 (`DLManagedTensorVersioned`) and the older `DLManagedTensor`. An exported
//! tensor owns a share of its batch's memory, which the deleter releases on any thread.

use crate::batch::Tensor;
use crate::decode::DType;
use crate::delivery::Device;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `DLDevice`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlDevice {
    /// 1: host memory; 2: CUDA.
    pub device_type: i32,
    /// Number of the device, 0 for host memory.
    pub device_id: i32,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlDataType {
    /// 0 signed, 1 unsigned, 2 float, 4 bfloat, 6 bool.
    pub code: u8,
    /// Bits of one element.
    pub bits: u8,
    /// Always 1 here.
    pub lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
#[derive(Debug)]
pub struct DlTensor {
    /// First byte of the memory.
    pub data: *mut c_void,
    /// Device of the memory.
    pub device: DlDevice,
    /// Number of dimensions.
    pub ndim: i32,
    /// Element type.
    pub dtype: DlDataType,
    /// `ndim` sizes.
    pub shape: *mut i64,
    /// `ndim` strides in elements.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// `DLManagedTensor` (before DLPack 1.0).
#[repr(C)]
#[derive(Debug)]
pub struct DlManagedTensor {
    /// The tensor.
    pub dl_tensor: DlTensor,
    /// Owner's data.
    pub manager_ctx: *mut c_void,
    /// Called once by the consumer.
    pub deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

/// `DLManagedTensorVersioned` (DLPack 1.0).
#[repr(C)]
#[derive(Debug)]
pub struct DlManagedTensorVersioned {
    /// Major and minor version.
    pub version: [u32; 2],
    /// Owner's data.
    pub manager_ctx: *mut c_void,
    /// Called once by the consumer.
    pub deleter: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned)>,
    /// Bit 0: read only.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DlTensor,
}

/// Common interface of the two forms of a managed tensor.
trait Managed: Sized {
    /// `tensor` with this deleter and no owner's data yet.
    fn new(tensor: DlTensor, deleter: unsafe extern "C" fn(*mut Self)) -> Self;

    /// The owner's data.
    fn context(&mut self) -> &mut *mut c_void;
}

impl Managed for DlManagedTensorVersioned {
    fn new(dl_tensor: DlTensor, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
        Self { version: [1, 0], manager_ctx: std::ptr::null_mut(), deleter: Some(deleter), flags: 0, dl_tensor }
    }

    fn context(&mut self) -> &mut *mut c_void {
        &mut self.manager_ctx
    }
}

impl Managed for DlManagedTensor {
    fn new(dl_tensor: DlTensor, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
        Self { dl_tensor, manager_ctx: std::ptr::null_mut(), deleter: Some(deleter) }
    }

    fn context(&mut self) -> &mut *mut c_void {
        &mut self.manager_ctx
    }
}

/// Data that an exported structure keeps alive: the tensor, and the arrays that the structure points into. The
/// structure's `manager_ctx` is the address of this value.
struct Owner<M> {
    managed: M,
    _shape: Vec<i64>,
    _strides: Vec<i64>,
    _tensor: Tensor,
    /// The process that exported: a deleter in a forked child must leave the parent's pool alone.
    pid: u32,
}

fn describe(tensor: &Tensor, shape: &mut [i64], strides: &mut [i64]) -> DlTensor {
    DlTensor {
        data: tensor.address().cast(),
        device: device(tensor.device()),
        ndim: shape.len() as i32,
        dtype: dtype(tensor),
        shape: shape.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    }
}

/// DLPack's name for `device`.
pub fn device(device: Device) -> DlDevice {
    match device {
        Device::Cpu => DlDevice { device_type: 1, device_id: 0 },
        Device::Cuda(number) => DlDevice { device_type: 2, device_id: number as i32 },
    }
}

/// DLPack's name for the elements of `tensor`.
pub fn dtype(tensor: &Tensor) -> DlDataType {
    let dtype = tensor.dtype();
    let code = match dtype {
        _ if tensor.is_bool() => 6,
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => 0,
        DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64 => 1,
        DType::Float16 | DType::Float32 | DType::Float64 => 2,
        DType::BFloat16 => 4,
    };
    DlDataType { code, bits: dtype.size() as u8 * 8, lanes: 1 }
}

fn contiguous(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    strides
}

/// Exports `tensor` in the form `M`. The receiver of the pointer calls its deleter once.
#[expect(private_bounds, reason = "the forms are defined by DLPack")]
pub fn export<M: Managed>(tensor: Tensor) -> *mut M {
    let (mut shape, mut strides) = (tensor.shape().to_vec(), contiguous(tensor.shape()));
    // The vectors move into the box below, their elements do not.
    let managed = M::new(describe(&tensor, &mut shape, &mut strides), delete::<M>);
    let pid = std::process::id();
    let owner = Box::into_raw(Box::new(Owner { managed, _shape: shape, _strides: strides, _tensor: tensor, pid }));
    // SAFETY: `owner` was just made by Box::into_raw, so it is valid and nothing else uses it.
    let owner_ref = unsafe { &mut *owner };
    *owner_ref.managed.context() = owner.cast();
    &mut owner_ref.managed
}

/// # Safety
///
/// `managed` is null or comes from [`export`], and is not used afterwards.
unsafe extern "C" fn delete<M: Managed>(managed: *mut M) {
    // SAFETY: by the contract above the pointer is null, or comes from `export` and is still alive.
    let Some(managed) = (unsafe { managed.as_mut() }) else { return };
    let owner = managed.context().cast::<Owner<M>>();
    // SAFETY: the owner's data is the box that `export` leaked, and this is its one release.
    let owner = unsafe { Box::from_raw(owner) };
    if owner.pid != std::process::id() {
        // A forked child has a copy of the pool, with locks that may be held by threads that do not exist here.
        std::mem::forget(owner);
        return;
    }
    // No panic may unwind into the consumer.
    if catch_unwind(AssertUnwindSafe(|| drop(owner))).is_err() {
        log::error!("the memory of a tensor was not released: a bug in the library, please report it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::host_tensor;

    #[test]
    fn the_deleter_of_an_exported_tensor_releases_its_memory() {
        let (tensor, alive) = host_tensor(&[2, 3]);
        let managed = export::<DlManagedTensorVersioned>(tensor);
        // SAFETY: just exported.
        let dl = unsafe { &(*managed).dl_tensor };
        assert_eq!((dl.ndim, dl.dtype, dl.device.device_type), (2, DlDataType { code: 1, bits: 8, lanes: 1 }, 1));
        // SAFETY: strides has ndim elements.
        assert_eq!(unsafe { std::slice::from_raw_parts(dl.strides, 2) }, [3, 1]);
        assert_eq!(alive.upgrade().map(|_| ()), Some(()));
        // SAFETY: once, and the pointer is not used again.
        unsafe { delete(managed) };
        assert!(alive.upgrade().is_none());
        let (tensor, alive) = host_tensor(&[1]);
        let managed = export::<DlManagedTensor>(tensor);
        // SAFETY: once, and the pointer is not used again.
        unsafe { delete(managed) };
        assert!(alive.upgrade().is_none());
    }
}
