//! The C interface: what `include/forebay.h` declares.
//!
//! ```text
//! status    codes, the thread's last error, and the guard that every function's body runs in
//! handles   loaders and batches by handle; a handle is a number and is looked up, never followed
//! loader    forebay_loader_*: new, start_epoch, next, state, load_state, stats
//! batch     forebay_batch_*: outputs by name and number, tensors as DLPack, rows of text and bytes
//! ```
//!
//! The functions convert, guard and forward. A handle that was freed, that belongs to something else or that is NULL is
//! answered with `FOREBAY_STATUS_INVALID`; what a pointer to memory points at, the caller answers for.

mod batch;
mod handles;
mod loader;
mod status;

pub use batch::*;
pub use loader::*;
pub use status::{ForebayStatus, forebay_last_error, forebay_string_free};
