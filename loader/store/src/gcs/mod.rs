//! `gs://`: buckets of Google Cloud Storage.
//!
//! A bucket is an HTTP remote ([`HttpSource`](super::http::HttpSource)) with a [`GcsProtocol`], over the XML interface,
//! with the addresses and meanings of S3. Requests have a bearer token, which `account` fetches for the
//! credentials of Google's tools, or a signature of S3 with an HMAC key. object_store has no part in the tokens: it
//! uses neither the token service that a credential names nor the identities of foreign clouds.

mod account;
mod emulator;
mod protocol;
mod settings;

pub(crate) use emulator::EmulatorTarget;
pub(crate) use protocol::GcsProtocol;
pub use settings::GcsSettings;
