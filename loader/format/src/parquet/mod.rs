//! Parquet files: the contents of their footers, and the reading of their rows.
//!
//! ```text
//!   last bytes of a file --Footer::parse--> schema, row groups: rows, offsets of the columns' bytes
//!                                              | kept in the source's index
//!   bytes of the wanted columns --Parts--> rows of an Arrow table
//! ```
//!
//! * [`footer`](Footer): the footer of a file, reduced to the parts that its rows are read by;
//! * [`bounds`](Bounds): least and largest values of a column in a group of rows;
//! * [`schema`](TableSchema): the columns of a file, as an Arrow table;
//! * `parts`: bytes that were fetched of a file, from which the [recipe](super::recipe) of a shard reads rows;
//! * `thrift`: bounds of a footer that the library does not check.
//!
//! The crate `parquet` decodes. Files are not trusted: an error or a panic of the crate becomes one of the engine, with
//! the file's name.

mod bounds;
mod footer;
mod parts;
mod schema;
mod thrift;

pub use bounds::{Bounds, Values};
pub use footer::{Chunk, FOOTER_BYTES_MAX, Footer, Group, TAIL_BYTES, footer_bytes};
pub(super) use parts::Parts;
pub use schema::TableSchema;
pub(super) use schema::different_file;

use forebay_core::error::{Error, Result};
use parquet::errors::ParquetError;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the result of `read`. A panic of the library is an error: the file is damaged in a way that it does not
/// expect.
pub(super) fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = |_| Err(Error::format("the file is damaged: the library that reads it has failed"));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(panicked)
}

/// Returns an error of the library as one of the engine.
pub(super) fn damaged(error: ParquetError) -> Error {
    match error {
        ParquetError::NYI(feature) => {
            let why = format!("the file uses a feature of Parquet that is not supported: {feature}");
            Error::new(crate::ErrorKind::Unsupported, why)
        }
        error => Error::format("the file is damaged, or not in Parquet's format").caused_by(error),
    }
}
