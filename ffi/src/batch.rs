//! Functions `forebay_batch_*`.

use crate::arguments::{Out, c_text, text_at};
use crate::handles::{HandleKind, Handles};
use crate::status::{CallError, CallResult, ForebayStatus, guard};
use forebay_loader::batch::{Batch, Output, RowBytes, Tensor};
use forebay_loader::dlpack::{self, DlManagedTensorVersioned, export};
use std::ffi::{CString, c_char, c_void};

/// One batch. Free it with `forebay_batch_free`; tensors taken from it outlive it.
#[derive(Debug)]
pub struct ForebayBatch {
    _private: (),
}

/// Kind of an output.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForebayKind {
    /// Rows of equal shape, stacked: `forebay_batch_view` and `forebay_batch_tensor`.
    Tensor = 0,
    /// UTF-8 text of each row, without a NUL at its end: `forebay_batch_row`.
    Text = 1,
    /// Bytes of each row: `forebay_batch_row`.
    Bytes = 2,
    /// An array with its own shape for each row, in the encoding of an MDS `ndarray`: `forebay_batch_row`.
    Ragged = 3,
}

/// Position and size of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ForebayBatchInfo {
    /// Epoch of the batch.
    pub epoch: u64,
    /// Number of the batch in its epoch.
    pub number: u64,
    /// Rows in every output.
    pub rows: usize,
    /// Number of outputs.
    pub outputs: usize,
}

/// A tensor in the memory of its batch: dense, rows first, without strides.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ForebayTensorView {
    /// First element, in the device's memory. It may be written.
    pub data: *mut c_void,
    /// Bytes of all elements.
    pub bytes: usize,
    /// `ndim` sizes, rows first.
    pub shape: *const i64,
    /// Number of dimensions.
    pub ndim: u32,
    /// DLPack's number for the kind of the elements: 0 signed, 1 unsigned, 2 float, 4 bfloat, 6 bool.
    pub dtype_code: u8,
    /// Bits of an element.
    pub dtype_bits: u8,
    /// DLPack's number for the kind of the device: 1 host, 2 CUDA.
    pub device_type: i32,
    /// Number of the device, 0 for the host.
    pub device_id: i32,
}

/// Batch of a handle.
struct NamedBatch {
    batch: Batch,
    /// Names of the outputs as C strings.
    names: Vec<CString>,
}

impl NamedBatch {
    fn output(&self, number: usize) -> CallResult<&Output> {
        let found = self.batch.outputs.get(number).map(|(_, output)| output);
        found.ok_or_else(|| {
            let count = self.batch.outputs.len();
            CallError::argument(format!("there is no output {number}: the batch has {count}, counted from 0"))
        })
    }

    fn tensor(&self, number: usize) -> CallResult<&Tensor> {
        match self.output(number)? {
            Output::Tensor(tensor) => Ok(tensor),
            _ => Err(CallError::argument(format!("output {number} is not a tensor: read it with forebay_batch_row"))),
        }
    }
}

static BATCHES: Handles<NamedBatch> = Handles::new(HandleKind::Batch);

/// Returns a handle for `batch`.
pub(crate) fn handle_of(batch: Batch) -> CallResult<*mut ForebayBatch> {
    let names = batch.outputs.iter().map(|(name, _)| c_text(name.as_bytes(), "an output's name"));
    let names = names.collect::<CallResult<Vec<_>>>()?;
    Ok(BATCHES.insert(NamedBatch { batch, names }))
}

/// Frees a batch. NULL is fine, and so is a handle that has been freed.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_batch_free(batch: *mut ForebayBatch) {
    guard(|| {
        BATCHES.remove(batch);
        Ok(ForebayStatus::Ok)
    });
}

/// Writes position and size of a batch to `info`.
///
/// Threads: any.
///
/// # Safety
///
/// `info` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_batch_info(batch: *const ForebayBatch, info: *mut ForebayBatchInfo) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(info, "info") }?;
        let held = BATCHES.get(batch)?;
        let Batch { epoch, number, rows, outputs, .. } = &held.batch;
        out.write(ForebayBatchInfo { epoch: *epoch, number: *number, rows: *rows, outputs: outputs.len() });
        Ok(ForebayStatus::Ok)
    })
}

/// Writes the number of the output `name` to `output`.
///
/// Threads: any.
///
/// # Safety
///
/// `name` is null or ends in a NUL; `output` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_batch_find(
    batch: *const ForebayBatch,
    name: *const c_char,
    output: *mut usize,
) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(output, "output") }?;
        let held = BATCHES.get(batch)?;
        // SAFETY: by the contract above.
        let name = unsafe { text_at(name, "name") }?;
        let found = held.batch.outputs.iter().position(|(n, _)| &**n == name);
        let names = || held.batch.outputs.iter().map(|(n, _)| &**n).collect::<Vec<_>>().join(", ");
        out.write(
            found.ok_or_else(|| CallError::argument(format!("there is no output `{name}`: there are {}", names())))?,
        );
        Ok(ForebayStatus::Ok)
    })
}

/// Writes name and kind of an output, each if its pointer is not NULL. The name is valid until the batch is freed.
///
/// Threads: any.
///
/// # Safety
///
/// `name` and `kind` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_batch_output(
    batch: *const ForebayBatch,
    output: usize,
    name: *mut *const c_char,
    kind: *mut ForebayKind,
) -> ForebayStatus {
    guard(|| {
        let held = BATCHES.get(batch)?;
        let is = match held.output(output)? {
            Output::Tensor(_) => ForebayKind::Tensor,
            Output::Text(_) => ForebayKind::Text,
            Output::Bytes(_) => ForebayKind::Bytes,
            Output::Ragged(_) => ForebayKind::Ragged,
        };
        if !name.is_null() {
            // SAFETY: by the contract above.
            unsafe { Out::new(name, "name") }?.write(held.names[output].as_ptr());
        }
        if !kind.is_null() {
            // SAFETY: by the contract above.
            unsafe { Out::new(kind, "kind") }?.write(is);
        }
        Ok(ForebayStatus::Ok)
    })
}

/// Writes an output as a DLPack tensor, which shares the batch's memory and outlives the batch and the loader. The
/// caller calls its deleter once. `stream` is DLPack's number of the stream that will read it, 0 for its default, -1
/// for none; it is ignored for host memory.
///
/// Threads: any.
///
/// # Safety
///
/// `tensor` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_batch_tensor(
    batch: *const ForebayBatch,
    output: usize,
    stream: i64,
    tensor: *mut *mut DlManagedTensorVersioned,
) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(tensor, "tensor") }?;
        let held = BATCHES.get(batch)?;
        let Output::Tensor(tensor) = held.output(output)? else {
            return Err(CallError::argument(format!(
                "output {output} is not a tensor: read it with forebay_batch_row"
            )));
        };
        tensor.memory().order_before((stream != 0).then_some(stream))?;
        out.write(export(tensor.clone()));
        Ok(ForebayStatus::Ok)
    })
}

/// Writes where an output's elements are. They are valid until the batch is freed. On a CUDA device they are valid for
/// work that comes after `forebay_batch_tensor` for its stream.
///
/// Threads: any.
///
/// # Safety
///
/// `view` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_batch_view(
    batch: *const ForebayBatch,
    output: usize,
    view: *mut ForebayTensorView,
) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(view, "view") }?;
        let held = BATCHES.get(batch)?;
        let tensor = held.tensor(output)?;
        let (dtype, device) = (dlpack::dtype(tensor), dlpack::device(tensor.device()));
        out.write(ForebayTensorView {
            data: tensor.address().cast(),
            bytes: tensor.bytes(),
            shape: tensor.shape().as_ptr(),
            ndim: tensor.shape().len() as u32,
            dtype_code: dtype.code,
            dtype_bits: dtype.bits,
            device_type: device.device_type,
            device_id: device.device_id,
        });
        Ok(ForebayStatus::Ok)
    })
}

/// Writes one row of an output that is not a tensor. The bytes are valid until the batch is freed.
///
/// Threads: any.
///
/// # Safety
///
/// `data` and `len` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_batch_row(
    batch: *const ForebayBatch,
    output: usize,
    row: usize,
    data: *mut *const u8,
    len: *mut usize,
) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let data = unsafe { Out::new(data, "data") }?;
        // SAFETY: by the contract above.
        let len = unsafe { Out::new(len, "len") }?;
        let held = BATCHES.get(batch)?;
        let bytes = match held.output(output)? {
            Output::Tensor(_) => {
                return Err(CallError::argument(format!(
                    "output {output} is a tensor: read it with forebay_batch_view"
                )));
            }
            Output::Text(rows) => rows.get(row).map(|r| r.as_bytes()),
            Output::Bytes(rows) => rows.get(row).and_then(RowBytes::host),
            Output::Ragged(rows) => rows.get(row).map(|r| &**r),
        };
        let rows = held.batch.rows;
        let bytes = bytes.ok_or_else(|| CallError::argument(format!("there is no row {row}: the batch has {rows}")))?;
        data.write(bytes.as_ptr());
        len.write(bytes.len());
        Ok(ForebayStatus::Ok)
    })
}
