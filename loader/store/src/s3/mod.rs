//! `s3://`: buckets of AWS and of all stores with its protocol.
//!
//! A bucket is an HTTP remote ([`HttpSource`](super::http::HttpSource)) with an [`S3Protocol`] for addresses
//! and signatures. Signatures and credentials come from object_store. Its own requests use our connections over the
//! [`Bridge`](super::credentials::Bridge); `settings` and `profile` read the environment and the files of the AWS
//! tools.

mod authorize;
mod profile;
mod protocol;
mod provided;
mod requests;
mod settings;
mod source;
mod target;
mod time;

pub(crate) use authorize::authorize;
pub(crate) use protocol::S3Protocol;
pub use settings::S3Settings;
pub(crate) use target::{BucketProtocol, Right, S3Target};
