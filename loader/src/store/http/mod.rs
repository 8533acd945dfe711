//! `http(s)://`: a folder on a web server. `s3://` adds signed requests.
//!
//! * `source`: one exchange per request, redirects included, read as the standard defines it;
//! * `protocol`: addresses and signatures, which differ between stores;
//! * `client` sends requests over the connections in `pool`; `connect` opens them, over `uring` if configured;
//! * `tls`: the certificates to trust;
//! * `response` checks the head of a response, and turns everything but the requested bytes into an error; `body` reads
//!   the bytes.

mod body;
mod client;
mod connect;
mod pool;
mod protocol;
mod response;
mod source;
mod tls;
mod uring;

pub(crate) use body::HttpBody;
pub(crate) use client::send;
pub(crate) use pool::{ConnectionPool, Origin};
pub(crate) use protocol::{PlainProtocol, Protocol};
pub(crate) use response::server_code;
pub(crate) use source::HttpSource;
pub(crate) use tls::Tls;
