//! Functions `forebay_batch_*`.

use crate::handles::Handles;
use crate::status::{Answer, Failure, ForebayStatus, Out, guard, text_at};
use forebay_loader::batch::{Batch, Output, RowBytes};
use forebay_loader::dlpack::{DlManagedTensorVersioned, export};
use std::ffi::{CString, c_char};

/// One batch. Free it with `forebay_batch_free`; tensors taken from it outlive it.
#[derive(Debug)]
pub struct ForebayBatch {
    _private: (),
}

/// Kind of an output.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForebayKind {
    /// Rows of equal shape, stacked: `forebay_batch_tensor`.
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

/// Batch of a handle.
struct NamedBatch {
    batch: Batch,
    /// Names of the outputs as C strings.
    names: Vec<CString>,
}

impl NamedBatch {
    fn output(&self, number: usize) -> Answer<&Output> {
        let found = self.batch.outputs.get(number).map(|(_, output)| output);
        found.ok_or_else(|| {
            let count = self.batch.outputs.len();
            Failure::invalid(format!("there is no output {number}: the batch has {count}, counted from 0"))
        })
    }
}

static BATCHES: Handles<NamedBatch> = Handles::new("batch", 2);

/// Returns a handle for `batch`.
pub(crate) fn handle_of(batch: Batch) -> Answer<*mut ForebayBatch> {
    let names = batch.outputs.iter().map(|(name, _)| CString::new(name.as_bytes()));
    let names: Result<Vec<_>, _> = names.collect();
    let names = names.map_err(|_| Failure::invalid("an output's name contains a NUL"))?;
    Ok(BATCHES.insert(NamedBatch { batch, names }))
}

/// Frees a batch. NULL is fine, and so is a handle that has been freed.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_batch_free(batch: *mut ForebayBatch) {
    guard(|| {
        BATCHES.remove(batch);
        Ok(ForebayStatus::Ok)
    });
}

/// Writes position and size of a batch to `info`.
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
        out.put(ForebayBatchInfo { epoch: *epoch, number: *number, rows: *rows, outputs: outputs.len() });
        Ok(ForebayStatus::Ok)
    })
}

/// Writes the number of the output `name` to `output`.
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
        out.put(found.ok_or_else(|| Failure::invalid(format!("there is no output `{name}`: there are {}", names())))?);
        Ok(ForebayStatus::Ok)
    })
}

/// Writes name and kind of an output, each if its pointer is not NULL. The name is valid until the batch is freed.
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
            unsafe { Out::new(name, "name") }?.put(held.names[output].as_ptr());
        }
        if !kind.is_null() {
            // SAFETY: by the contract above.
            unsafe { Out::new(kind, "kind") }?.put(is);
        }
        Ok(ForebayStatus::Ok)
    })
}

/// Writes an output as a DLPack tensor, which shares the batch's memory and outlives the batch and the loader. The
/// caller calls its deleter once. `stream` is DLPack's number of the stream that will read it, 0 for its default, -1
/// for none; it is ignored for host memory.
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
            return Err(Failure::invalid(format!("output {output} is not a tensor: read it with forebay_batch_row")));
        };
        tensor.memory().order_before((stream != 0).then_some(stream))?;
        out.put(export(tensor.clone()));
        Ok(ForebayStatus::Ok)
    })
}

/// Writes one row of an output that is not a tensor. The bytes are valid until the batch is freed.
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
                return Err(Failure::invalid(format!(
                    "output {output} is a tensor: take it with forebay_batch_tensor"
                )));
            }
            Output::Text(rows) => rows.get(row).map(|r| r.as_bytes()),
            Output::Bytes(rows) => rows.get(row).and_then(RowBytes::host),
            Output::Ragged(rows) => rows.get(row).map(|r| &**r),
        };
        let rows = held.batch.rows;
        let bytes = bytes.ok_or_else(|| Failure::invalid(format!("there is no row {row}: the batch has {rows}")))?;
        data.put(bytes.as_ptr());
        len.put(bytes.len());
        Ok(ForebayStatus::Ok)
    })
}
