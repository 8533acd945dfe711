//! The C interface that `include/forebay.h` declares.
//!
//! ```text
//! status    codes, the thread's last error, and the guard that every function's body runs in
//! handles   loaders and batches by handle; a handle is a number that is looked up, never dereferenced
//! loader    forebay_loader_*: new, start_epoch, next, state, load_state, stats
//! batch     forebay_batch_*: outputs by name and number, tensors as DLPack, rows of text and bytes
//! ```
//!
//! The functions convert, guard and forward. A handle that is freed, NULL or of another kind gives
//! `FOREBAY_STATUS_INVALID`. The caller is responsible for the memory behind other pointers.

mod batch;
mod handles;
mod loader;
mod status;

pub use batch::*;
pub use loader::*;
pub use status::{ForebayStatus, forebay_last_error, forebay_string_free};
