//! `hf://`: data sets on the Hugging Face hub.
//!
//! A folder of a data set's repository is an HTTP remote ([`HttpSource`](super::http::HttpSource)) with an
//! [`HfProtocol`]. The hub redirects requests for large files to a second server, which gets no token. The redirect
//! names the version of the file; the second server has its own names for versions.

mod link;
mod protocol;
mod settings;
mod target;

pub(crate) use protocol::HfProtocol;
pub use settings::HfSettings;
pub(crate) use target::HfTarget;
