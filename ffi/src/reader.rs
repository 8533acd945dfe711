//! Functions `forebay_reader_*` and `forebay_sample_*`.

use crate::arguments::{Out, text_at};
use crate::handles::{HandleKind, Handles};
use crate::signals;
use crate::status::{CallError, CallResult, ForebayStatus, guard};
use crate::value::{ColumnValue, ForebayValue};
use forebay_loader::LoaderConfig;
use forebay_loader::error::Context;
use forebay_loader::format::{FIELDS, Scratch};
use forebay_loader::order::SampleId;
use forebay_loader::sync::Arc;
use forebay_loader::worker::{ATTEMPTS, DataSet, SampleReader};
use std::ffi::c_char;

/// Reader of single samples by number. Free it with `forebay_reader_free`.
#[derive(Debug)]
pub struct ForebayReader {
    _private: (),
}

/// One sample. Free it with `forebay_sample_free`; it outlives its reader.
#[derive(Debug)]
pub struct ForebaySample {
    _private: (),
}

static READERS: Handles<SampleReader> = Handles::new(HandleKind::Reader);
static SAMPLES: Handles<Vec<ColumnValue>> = Handles::new(HandleKind::Sample);

/// Opens a data set to read single samples in any order. `config` is as in `forebay_loader_new`; only `streams`,
/// `cache_limit` and `fetch` count. Every source of a loader is read, tars among them. Indexes are fetched or made as a
/// loader does; shards are fetched and unpacked into the streams' folders when their first sample is read. A sample has
/// the columns that are stored for it; a null of a table is none.
///
/// Threads: any.
///
/// # Safety
///
/// `config` is null or ends in a NUL; `reader` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_reader_new(config: *const c_char, reader: *mut *mut ForebayReader) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(reader, "reader") }?;
        // SAFETY: by the contract above.
        let mut config = LoaderConfig::from_json(unsafe { text_at(config, "config") }?)?;
        signals::keep_from_threads();
        // Required for batches only.
        config.batch_size = config.batch_size.max(1);
        config.validate()?;
        let data = Arc::new(DataSet::of_loader(&config, None)?);
        out.write(READERS.insert(SampleReader::open(data, Vec::new())?));
        Ok(ForebayStatus::Ok)
    })
}

/// Frees a reader. NULL is fine, and so is a handle that has been freed.
///
/// Threads: any. A call in progress on a different thread ends as usual.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_reader_free(reader: *mut ForebayReader) {
    guard(|| {
        READERS.remove(reader);
        Ok(ForebayStatus::Ok)
    });
}

/// Writes the number of samples of all streams.
///
/// Threads: any.
///
/// # Safety
///
/// `samples` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_reader_samples(reader: *const ForebayReader, samples: *mut u64) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(samples, "samples") }?;
        out.write(READERS.get(reader)?.data().shape().num_samples());
        Ok(ForebayStatus::Ok)
    })
}

/// Reads sample `number`, counted from 0 through the streams in their order, which `forebay_sample_free` frees.
///
/// Threads: any; several can read at once.
///
/// # Safety
///
/// `sample` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_reader_sample(
    reader: *const ForebayReader,
    number: u64,
    sample: *mut *mut ForebaySample,
) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(sample, "sample") }?;
        out.write(SAMPLES.insert(read(&*READERS.get(reader)?, number)?));
        Ok(ForebayStatus::Ok)
    })
}

fn read(reader: &SampleReader, number: u64) -> CallResult<Vec<ColumnValue>> {
    let mut bytes = Vec::new();
    let info = reader.fetch_and_read(SampleId(number), &mut bytes, ATTEMPTS)?;
    let layout = &reader.layouts()[info.layout];
    let mut scratch = Scratch::default();
    let columns = layout.split(&bytes[..info.bytes], &mut scratch).context("sample", || number)?;
    let mut values = Vec::with_capacity(layout.columns.len());
    for (place, stored) in columns.present() {
        let column = &layout.columns[place];
        if info.is_row && column.name == FIELDS {
            // The list of the columns that are not null.
            continue;
        }
        let value = column.encoding.decode(stored).context("column", || &column.name).context("sample", || number)?;
        values.push(ColumnValue::new(&column.name, value, stored)?);
    }
    Ok(values)
}

/// Frees a sample. NULL is fine, and so is a handle that has been freed.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_sample_free(sample: *mut ForebaySample) {
    guard(|| {
        SAMPLES.remove(sample);
        Ok(ForebayStatus::Ok)
    });
}

/// Writes the number of columns of a sample.
///
/// Threads: any.
///
/// # Safety
///
/// `columns` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_sample_columns(sample: *const ForebaySample, columns: *mut usize) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(columns, "columns") }?;
        out.write(SAMPLES.get(sample)?.len());
        Ok(ForebayStatus::Ok)
    })
}

/// Writes the number of the column `name`.
///
/// Threads: any.
///
/// # Safety
///
/// `name` is null or ends in a NUL; `column` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_sample_find(
    sample: *const ForebaySample,
    name: *const c_char,
    column: *mut usize,
) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(column, "column") }?;
        let values = SAMPLES.get(sample)?;
        // SAFETY: by the contract above.
        let name = unsafe { text_at(name, "name") }?;
        let names =
            || values.iter().map(|value| String::from_utf8_lossy(value.column())).collect::<Vec<_>>().join(", ");
        let found = values.iter().position(|value| value.column() == name.as_bytes());
        out.write(
            found.ok_or_else(|| CallError::argument(format!("there is no column `{name}`: there are {}", names())))?,
        );
        Ok(ForebayStatus::Ok)
    })
}

/// Writes the value of a column. Its pointers are valid until the sample is freed.
///
/// Threads: any.
///
/// # Safety
///
/// `value` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_sample_value(
    sample: *const ForebaySample,
    column: usize,
    value: *mut ForebayValue,
) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(value, "value") }?;
        let values = SAMPLES.get(sample)?;
        let count = values.len();
        let missing =
            || CallError::argument(format!("there is no column {column}: the sample has {count}, counted from 0"));
        out.write(values.get(column).ok_or_else(missing)?.as_c());
        Ok(ForebayStatus::Ok)
    })
}
