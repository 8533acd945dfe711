//! Files of token ids: Megatron's `.bin` and `.idx`, and windows over any file of ids.
//!
//! ```text
//!   .idx --Header::parse--> Header --Survey::documents--> cuts ---\
//!                              \------- Window --------------------> TokenPart --offsets--> OffsetTable
//! ```
//!
//! A `.bin` file has the ids of all documents, in sequence, and may have hundreds of GB. Its shards are ranges
//! of it, cut between documents or windows. A range needs no conversion: a sample is the bytes of its ids. So a file on
//! this machine is read where it is, and a range of a remote one is stored as it is.
//!
//! * `window` — samples of as many tokens each, over the concatenation of all documents;
//! * `header` — the fields of an `.idx` and the offsets of its tables; `survey` — a pass over them;
//! * `part` — a shard: range of the file, and the offsets of the samples in it.

mod header;
mod part;
mod survey;
#[cfg(test)]
mod tests;
mod window;

pub use header::{Header, MAGIC};
pub use part::{Samples, TokenPart};
pub use survey::Cut;
pub use window::TokenWindow;
