//! `s3://`: buckets of AWS and of other stores with its protocol.
//!
//! A bucket is an HTTP remote ([`HttpSource`](super::http::HttpSource)) with an [`S3Authority`] for addresses
//! and signatures. Signatures and credentials come from object_store, whose own requests use our connections over the
//! `bridge`; `settings` and `profile` read the environment and the files of the AWS tools.

mod authority;
mod bridge;
mod profile;
mod settings;

pub(crate) use authority::S3Authority;
pub use settings::S3Settings;
