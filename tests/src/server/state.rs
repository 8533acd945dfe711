//! State of a server, its configuration and its counters.

use super::azure::AzureAccount;
use super::hub::Hub;
use super::issuer::{Issuer, Tokens};
use super::objects::Root;
use super::oci::OciKey;
use super::script::Rule;
use super::sigv4::Keys;
use super::throttle::{Quota, Throttle};
use super::unfinished::{Interface, Unfinished};
use forebay_loader::sync::{AtomicBool, AtomicU64, Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::Notify;

/// Requests kept for [`ObjectServer::seen`](super::ObjectServer::seen); older ones are dropped.
pub(super) const SEEN_MAX: usize = 100_000;

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Name of the bucket under which the root appears as S3: `/bucket/key`. Plain paths work as well.
    pub bucket: Option<String>,
    /// Keys with which every request must be signed.
    pub keys: Option<Keys>,
    /// Account of Azure. Its key must sign every request.
    pub azure: Option<AzureAccount>,
    /// Key of Oracle's cloud with which every request must be signed.
    pub oci: Option<OciKey>,
    /// Data set that the server has as the Hugging Face hub.
    pub hub: Option<Hub>,
    /// Token service. Every request must have one of its tokens.
    pub issuer: Option<Issuer>,
    /// Interface through which the server is written to and listed.
    pub interface: Interface,
    /// Reject bodies without a digest.
    pub needs_digest: bool,
    /// Reject objects without a checksum, as a bucket of S3 with Object Lock does.
    pub needs_checksum: bool,
    /// Entity tags of parts and of objects that consist of them are no digests, as with keys of KMS.
    pub has_opaque_tags: bool,
    /// Names of uploads need no escapes, which the library of s3torchconnector leaves out.
    pub has_plain_upload_names: bool,
    /// Serve https with the test certificate (for `localhost` and 127.0.0.1).
    pub tls: bool,
    /// Number of threads.
    pub threads: usize,
    /// Limit of the rate of all bodies together.
    pub bytes_per_s: Option<u64>,
    /// Limit of the rate of requests. Those above it are refused with status 503.
    pub requests_per_s: Option<u64>,
    /// Delay of every answer, as over a real network.
    pub latency: Duration,
    /// Entries per page of a listing.
    pub list_page: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            bucket: None,
            keys: None,
            azure: None,
            hub: None,
            oci: None,
            issuer: None,
            interface: Interface::default(),
            needs_digest: false,
            needs_checksum: false,
            has_opaque_tags: false,
            has_plain_upload_names: false,
            tls: false,
            threads: 1,
            bytes_per_s: None,
            requests_per_s: None,
            latency: Duration::ZERO,
            list_page: 1000,
        }
    }
}

/// Traffic of a server so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Requests of any kind.
    pub requests: u64,
    /// GET requests for objects.
    pub gets: u64,
    /// Listings.
    pub lists: u64,
    /// PUT requests.
    pub puts: u64,
    /// Bytes of object bodies passed to the network.
    pub bytes: u64,
}

/// Received request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `GET`, `PUT` ...
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The `Range` header.
    pub range: Option<String>,
    /// The `If-Match` header.
    pub if_match: Option<String>,
    /// The `x-amz-acl` header.
    pub acl: Option<String>,
    /// True if there is a signature or a session token.
    pub has_credentials: bool,
    /// Status of the answer.
    pub status: u16,
}

/// State shared by the threads of one server.
#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) root: Root,
    pub(super) options: Options,
    pub(super) tokens: Tokens,
    pub(super) unfinished: Unfinished,
    pub(super) connections: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) gets: AtomicU64,
    pub(super) lists: AtomicU64,
    pub(super) puts: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) seen: Mutex<VecDeque<Seen>>,
    pub(super) rules: Mutex<Vec<Rule>>,
    pub(super) throttle: Mutex<Throttle>,
    pub(super) quota: Mutex<Quota>,
    /// Number of stalled bodies.
    pub(super) stalls: Mutex<usize>,
    pub(super) stalled: Condvar,
    pub(super) release: Notify,
    pub(super) stopped: AtomicBool,
    pub(super) stop: Notify,
}

impl ServerState {
    pub(super) fn new(root: Root, options: Options) -> Self {
        Self {
            root,
            throttle: Mutex::new(Throttle::new(options.bytes_per_s)),
            quota: Mutex::new(Quota::new(options.requests_per_s)),
            tokens: Tokens::new(options.issuer.as_ref()),
            unfinished: Unfinished::default(),
            options,
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            lists: AtomicU64::new(0),
            puts: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            seen: Mutex::default(),
            rules: Mutex::default(),
            stalls: Mutex::default(),
            stalled: Condvar::new(),
            release: Notify::new(),
            stopped: AtomicBool::new(false),
            stop: Notify::new(),
        }
    }
}
