//! Uploads, listings and removals of remote objects.
//!
//! ```text
//!  callers (plain threads)                              fetch threads
//!  Stores --open_destination--> Destination
//!    put, upload --> parts of upload_part_bytes --+--> upload: one task per object
//!         |            each waits for the Budget  |      put | begin, put_part..., complete    attempts as for fetches
//!         v                                       |      a failure, a caller that gives up: abort
//!    UploadTicket, Upload <---- outcome ----------+             |
//!    list --> Listing  <-- pages, one ahead ------+             v
//!    delete, size      <-------------------------------+  Target: single exchanges, one implementation per scheme
//! ```
//!
//! * [`Destination`] is one folder of one scheme. Its methods wait on the caller's thread.
//! * `target` is the trait of the schemes; implementations are in `<scheme>/target.rs`, [`FileTarget`] for folders.
//!   S3's also serves Google's XML interface. HTTP stores share the [`Signer`](super::http::Signer), which signs with
//!   the scheme's protocol for reading; `answer` reads its responses.
//! * `payload`: the bytes of a request, in the caller's memory, and their digests; `budget`: the bound of the bytes in
//!   flight, which a part leaves when the store has confirmed it; `upload`: division into parts; `exchanges`: the order
//!   of the exchanges of one object, and threads for their digests; `job`: their attempts; `calls`: the way from the
//!   caller's thread to a fetch thread; `cancel`: the end of all uploads; `listing`: pages; `marks`: detection of
//!   listings without an end.
//!
//! **Integrity.** Every request with bytes has a digest that the store compares: the signed SHA-256 for S3, otherwise
//! `Content-MD5`. Databricks has none; there the sizes are compared. An object appears complete or not at all: by one
//! request, or when its parts are joined.
//!
//! **Repetition.** Each exchange has the attempts, pauses and deadlines of a fetch. All of them may be repeated when a
//! response was lost: parts replace themselves; an upload that is gone when it is completed again is complete if the
//! object consists of its parts; further uploads that a repeated `begin` has begun are looked up at the end and
//! aborted.

mod answer;
mod budget;
mod calls;
mod cancel;
mod exchanges;
mod file;
mod handle;
mod job;
mod listing;
mod marks;
mod payload;
mod target;
mod upload;

pub(crate) use answer::{
    check_md5, condition, conditional, described, incomplete, object_tag, part_tag, read_json, read_xml,
    unless_missing, unquoted,
};
pub(crate) use file::FileTarget;
pub use handle::Destination;
pub use listing::Listing;
pub(crate) use marks::PageMarks;
pub(crate) use payload::Payload;
pub(crate) use target::{Conditional, ListRequest, ObjectTag, Page, PartAt, StoredPart, Target};
pub use target::{Expected, ListedEntry};
pub use upload::{Upload, UploadTicket};
