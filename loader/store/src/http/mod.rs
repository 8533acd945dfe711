//! `http(s)://`: a folder on a web server. The clouds' schemes add addresses and signatures.
//!
//! * `source`: one exchange per request, redirects included, read as the standard defines it;
//! * `protocol`: addresses and signatures, which differ between stores;
//! * `client` sends requests over the connections in `pool`; `connect` opens them, over `uring` if configured; `call`
//!   also reads the whole response;
//! * `redirects`: addresses that a store has redirected to; `reached`: servers that have accepted a connection;
//! * `tls`: the certificates to trust; `proxy`: the proxies of the environment, and tunnels through them;
//! * `upload`: signed exchanges of any method, with bodies that `sent` reads from the caller's memory;
//! * `response` checks the head of a response, and turns everything but the requested bytes into an error; `body` reads
//!   the bytes.

mod body;
mod call;
mod client;
mod connect;
mod pool;
mod protocol;
mod proxy;
mod reached;
mod redirects;
mod response;
mod sent;
mod source;
mod tls;
mod upload;
mod uring;

pub(crate) use call::{call, rejection};
pub(crate) use pool::{ConnectionPool, Origin};
pub(crate) use protocol::{PlainProtocol, Protocol, Rejected};
pub use proxy::Proxies;
pub(crate) use reached::ReachedServers;
pub(crate) use redirects::Redirects;
pub(crate) use response::error_code;
pub(crate) use source::HttpSource;
pub use tls::Tls;
pub(crate) use upload::{Answer, Outgoing, Refusal, Signer};
