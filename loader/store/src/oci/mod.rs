//! `oci://`: buckets of Oracle's object storage, over its own interface.
//!
//! A bucket is an HTTP remote ([`HttpSource`](super::http::HttpSource)) with an [`OciProtocol`], which signs requests
//! with the key of Oracle's configuration file. The interface that is compatible with S3 needs different keys; it is an
//! endpoint of `s3://`.

mod protocol;
mod region;
mod settings;
mod target;

pub(crate) use protocol::OciProtocol;
pub use settings::OciSettings;
pub(crate) use target::OciTarget;
