//! `dbfs:/Volumes/...`: volumes of Databricks, over its interface for files.
//!
//! A folder of a volume is an HTTP remote ([`HttpSource`](super::http::HttpSource)) with a [`DbfsProtocol`], which adds
//! the token of a user or of a service principal.

mod protocol;
mod settings;
mod target;

pub(crate) use protocol::DbfsProtocol;
pub use settings::DbfsSettings;
pub(crate) use target::DbfsTarget;
