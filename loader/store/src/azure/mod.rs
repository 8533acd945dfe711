//! `azure://` and `azure-dl://`: containers of Azure's blob storage and file systems of Data Lake.
//!
//! A container is an HTTP remote ([`HttpSource`](super::http::HttpSource)) with an [`AzureProtocol`]. Signatures and
//! credentials come from object_store. Its own requests use our connections over the
//! [`Bridge`](super::credentials::Bridge). Both services read the same objects with the same requests and signatures;
//! only the host differs.

mod login;
mod protocol;
mod settings;
mod target;

pub(crate) use protocol::AzureProtocol;
pub use settings::AzureSettings;
pub(crate) use target::AzureTarget;
