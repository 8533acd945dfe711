//! Extension module `forebay._forebay` of the Python package.
//!
//! It converts, guards and forwards. Decisions are made in the engine or in the Python package.
//!
//! ```text
//! package forebay (Python): arguments, world, iterators
//!        |  JSON, bytes                          ^  Tensor, lists           ^ forebay.errors
//!     engine, session, order, codec, indexing, objects, shards, writer --enter--> engine crate
//!     engine crate --> batch --> tensor --> capsule (DLPack)
//!     worker ----------------enter--> engine crate --> values (dicts of Python's and numpy's own types)
//!     fetches, library <---requests for files of schemes that the engine does not support---'
//! ```
//!
//! Every call into the engine goes through [`enter`]: it releases the interpreter's lock, checks signals during waits,
//! converts errors to exceptions ([`error`]) and passes log lines to Python ([`logging`]). Only [`borrowed`],
//! [`capsule`] and [`rows`] use `unsafe`.

mod borrowed;
mod capsule;
mod codec;
mod command;
mod contents;
mod conversion;
mod drawing;
mod engine;
mod enter;
mod error;
mod fetches;
mod file_cache;
mod indexing;
mod library;
mod logging;
mod machine;
mod objects;
mod order;
mod own;
mod rows;
mod session;
mod shards;
mod tensor;
mod values;
mod verify;
mod worker;
mod writer;

/// Module that Python loads.
#[pyo3::pymodule]
mod _forebay {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::codec::{compress, compressions, decompress, hashes, hex_digest, offset_table};
    #[pymodule_export]
    use super::command::{Command, one_line, parse_command, size_text};
    #[pymodule_export]
    use super::contents::{ObjectLines, ObjectTarFiles};
    #[pymodule_export]
    use super::conversion::Conversion;
    #[pymodule_export]
    use super::drawing::{drawn_operations, function_key};
    #[pymodule_export]
    use super::engine::{Engine, Ragged};
    #[pymodule_export]
    use super::error::system_error;
    #[pymodule_export]
    use super::fetches::{Fetch, Fetches, is_url, redact, redact_in};
    #[pymodule_export]
    use super::file_cache::FileCache;
    #[pymodule_export]
    use super::indexing::{
        IndexedCopy, LengthIndex, TarSet, is_file_list, is_record_list, is_tar_list, jpeg_to_baseline, list_of_files,
        row_index_trailer, tar_encoding,
    };
    #[pymodule_export]
    use super::library::{Exchange, Exchanges, LibraryStores, needs_library};
    #[pymodule_export]
    use super::machine::cpu_count;
    #[pymodule_export]
    use super::objects::{
        ObjectFill, ObjectPages, ObjectRange, ObjectRanges, ObjectReads, ObjectStores, ObjectUpload, is_root,
    };
    #[pymodule_export]
    use super::order::{epoch_ids, partition, resample, sample_shards, shuffle};
    #[pymodule_export]
    use super::session::{HeldBatch, Pass, Session, Steps, Taken};
    #[pymodule_export]
    use super::shards::{Index, SingleShard};
    #[pymodule_export]
    use super::tensor::Tensor;
    #[pymodule_export]
    use super::verify::Verification;
    #[pymodule_export]
    use super::worker::{DataSet, Plan, Reader, Samples, epoch_shares, install_index};
    #[pymodule_export]
    use super::writer::MdsWriter;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::logging::start();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
