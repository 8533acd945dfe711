//! Text formats: samples as text, with their offsets in a separate `.meta` file.
//!
//! * `jsonl` — a JSON object per sample;
//! * `xsv` — a row of separated values per sample: XSV, CSV and TSV;
//! * `types` — the types that columns of both have.

mod jsonl;
mod types;
mod xsv;

pub(super) use jsonl::JSONL;
pub use xsv::XsvKind;
pub(super) use xsv::{CSV, TSV, XSV};
