//! Functions `forebay_writer_*`.

use crate::arguments::{Out, slice_at, text_at};
use crate::handles::{HandleKind, Handles};
use crate::signals;
use crate::status::{CallError, ForebayStatus, guard};
use crate::value::ForebayValue;
use forebay_loader::config::WriterConfig;
use forebay_loader::decode::jpeg::to_baseline;
use forebay_loader::error::Context;
use forebay_loader::format::writer::Writer;
use forebay_loader::format::{Encoding, Value};
use forebay_loader::indexing::JpegRows;
use forebay_loader::sync::{Arc, Mutex};
use forebay_loader::{Error, ErrorKind};
use std::ffi::c_char;

/// Writer of a data set. Free it with `forebay_writer_free`.
#[derive(Debug)]
pub struct ForebayWriter {
    _private: (),
}

/// Writer with the settings that are not the engine's.
struct DataWriter {
    /// `None` after `forebay_writer_finish`.
    writer: Mutex<Option<Writer>>,
    is_transcoding: bool,
}

static WRITERS: Handles<DataWriter> = Handles::new(HandleKind::Writer);

/// Starts a writer of MDS shards and their index, byte for byte as MosaicML streaming writes them. `config` is a JSON
/// object, for example:
///
/// ```json
/// {"out": "/data/set", "columns": {"image": "jpeg", "class": "int"}, "hashes": ["xxh64"]}
/// ```
///
/// The default of each option is in brackets. Unknown names are an error.
///
/// Options of a writer, the same as in Python's `MDSWriter`:
///
/// * `out` (required): Folder to write to, new or empty: a path, or a folder of a store such as "s3://bucket/train".
/// * `columns` (required): Encoding of each column by name, such as "bytes", "str", "int", "float32",
///   "ndarray:uint16:2048" or "jpeg".
/// * `compression` (null): "zstd", "gz", "bz2", "br" or "snappy", optionally with a level ("zstd:7"). null: raw shards.
/// * `hashes` ([]): Hashes to record, such as ["xxh64"]. Without one, damaged downloads are not noticed.
/// * `size_limit` (67108864): Largest raw shard, in bytes or as "64mb". null: one shard.
/// * `exist_ok` (false): Empty the folder if it is not empty, instead of an error.
/// * `threads` (null): Threads that compress and write. null: the CPUs of this process.
/// * `jpeg_row_index` (false): Append to each shard the positions of the rows of every JPEG in "jpeg" columns, for
///   faster crops.
/// * `jpeg_transcode` (false): Rewrite progressive JPEGs of "jpeg" columns as baseline JPEGs with the same pixels and
///   markers.
///
/// Threads: any.
///
/// # Safety
///
/// `config` is null or ends in a NUL; `writer` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_writer_new(config: *const c_char, writer: *mut *mut ForebayWriter) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(writer, "writer") }?;
        // SAFETY: by the contract above.
        let config = WriterConfig::from_json(unsafe { text_at(config, "config") }?)?;
        signals::keep_from_threads();
        let writer = Mutex::new(Some(config.open(Arc::new(JpegRows), None)?));
        out.write(WRITERS.insert(DataWriter { writer, is_transcoding: config.jpeg_transcode }));
        Ok(ForebayStatus::Ok)
    })
}

/// Frees a writer. NULL is fine, and so is a handle that has been freed. Without `forebay_writer_finish` the folder has
/// no index, so it is not a data set.
///
/// Threads: any. A call in progress on a different thread ends as usual.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_free(writer: *mut ForebayWriter) {
    guard(|| {
        WRITERS.remove(writer);
        Ok(ForebayStatus::Ok)
    });
}

/// Adds a sample: `count` values, one for each column, in any order. Their memory is the caller's and is not used after
/// the call. After FOREBAY_STATUS_INVALID or FOREBAY_STATUS_CONFIG the sample is not added, and writing can continue.
/// After an error with a different status nothing more can be written.
///
/// Threads: any; samples are added one at a time.
///
/// # Safety
///
/// `values` is null or points to `count` values, with pointers that are null or valid for the sizes of the values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_writer_write(
    writer: *const ForebayWriter,
    values: *const ForebayValue,
    count: usize,
) -> ForebayStatus {
    guard(|| {
        let held = WRITERS.get(writer)?;
        // SAFETY: by the contract above.
        let values = unsafe { slice_at(values, count, "values") }?;
        let mut writer = held.writer.lock();
        let writer = writer.as_mut().ok_or_else(finished)?;
        let columns = &writer.layout().columns;
        let mut sample: Vec<Option<Value<'_>>> = vec![None; columns.len()];
        for value in values {
            // SAFETY: by the contract above.
            let name = unsafe { text_at(value.column, "column") }?;
            let Some(number) = columns.iter().position(|column| column.name == name) else {
                let names = columns.iter().map(|column| &*column.name).collect::<Vec<_>>().join(", ");
                return Err(Error::config(format!("there is no column `{name}`: there are {names}")).into());
            };
            // SAFETY: by the contract above.
            let value = unsafe { value.as_engine() }.map_err(|e| e.with("column", name))?;
            let value = match (&value, &columns[number].encoding) {
                (Value::Bytes(jpeg), Encoding::Jpeg) if held.is_transcoding => {
                    to_baseline(jpeg).context("column", || name)?.map_or(value, |jpeg| Value::Bytes(jpeg.into()))
                }
                _ => value,
            };
            if sample[number].replace(value).is_some() {
                return Err(Error::config("a column has two values").with("column", name).into());
            }
        }
        let missing = |column: &str| Error::config("a column has no value").with("column", column);
        let values = sample.into_iter().zip(columns).map(|(value, column)| value.ok_or_else(|| missing(&column.name)));
        let values = values.collect::<Result<Vec<_>, Error>>()?;
        writer.write(&values)?;
        Ok(ForebayStatus::Ok)
    })
}

/// Writes the last shard and the index. No sample can be written after it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_writer_finish(writer: *const ForebayWriter) -> ForebayStatus {
    guard(|| {
        let held = WRITERS.get(writer)?;
        let writer = held.writer.lock().take();
        writer.ok_or_else(finished)?.finish()?;
        Ok(ForebayStatus::Ok)
    })
}

fn finished() -> CallError {
    Error::new(ErrorKind::Closed, "this writer is finished: make a new one, for a different folder").into()
}
