//! The C interface that `include/forebay.h` declares.
//!
//! ```text
//! version    forebay_abi_version, forebay_version
//! status     codes, the thread's last error, and the guard that every function's body runs in
//! loader     forebay_loader_*: configuration, epochs, batches, state, figures
//! batch      forebay_batch_*: outputs by name and number, tensors as DLPack, rows of text and bytes
//! value      ForebayValue, a value of a column
//! reader     forebay_reader_*, forebay_sample_*: samples of a data set by number
//! writer     forebay_writer_*: new data sets
//! log        forebay_log_set: the engine's log lines
//!
//! arguments  pointers from and to C
//! callback   calls of the program's functions
//! handles    objects by handle; a handle is a number that is looked up, never dereferenced
//! main_thread  the handle of the program's main thread
//! process    values that a forked child replaces
//! signals    the mask of the engine's threads
//! ```
//!
//! `forebay_loader_next` and `forebay_loader_state` call the engine without the iteration session of Python
//! (`forebay_loader::session`), since nothing of C's runs between the engine and the return of `next`: `state` is the
//! position after the batches that were returned, so a program that saves before it calls `next` again saves the
//! position after its last trained batch.
//!
//! The functions convert, guard and forward. A handle that is freed, NULL or of a different kind gives
//! `FOREBAY_STATUS_INVALID`, one of the process before a fork `FOREBAY_STATUS_CLOSED`. The caller is responsible for
//! the memory behind all remaining pointers. `cargo gate generated` compares the header with these sources.
//! `symbols.map` has the exported functions and their versions; `install.sh` links the library with it.

mod arguments;
mod batch;
mod callback;
mod handles;
mod loader;
mod log;
mod main_thread;
mod process;
mod reader;
mod signals;
mod status;
mod value;
mod version;
mod writer;

pub use arguments::forebay_string_free;
pub use batch::*;
pub use loader::*;
pub use log::{ForebayLogCallback, ForebayLogLevel, forebay_log_set};
pub use reader::*;
pub use status::{ForebayStatus, forebay_last_error, forebay_last_error_json, forebay_last_status};
pub use value::{ForebayValue, ForebayValueKind};
pub use version::{FOREBAY_ABI_MAJOR, FOREBAY_ABI_MINOR, forebay_abi_version, forebay_version};
pub use writer::*;
