//! `s3://`: buckets of AWS and of everything that speaks its protocol.
//!
//! A bucket is an HTTP remote ([`HttpSource`](super::http::HttpSource)) with an [`S3`] that knows addresses, signs
//! requests and lists. Signatures, credentials and listing come from object_store, whose own requests take our
//! connections over the `bridge`; `settings` and `profile` read the environment and the files of the AWS tools.

mod authority;
mod bridge;
mod profile;
mod settings;

pub(crate) use authority::S3;
pub use settings::S3Settings;
