//! Settings of the fetches from stores.

use super::azure::AzureSettings;
use super::dbfs::DbfsSettings;
use super::gcs::GcsSettings;
use super::hf::HfSettings;
use super::http::Proxies;
use super::library::LibraryStores;
use super::oci::OciSettings;
use super::s3::S3Settings;
use crate::{Error, Result};
use forebay_core::clock::Clock;
use forebay_core::sync::Arc;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;
use std::time::Duration;

/// Network of a simulation, for tests of whole loaders.
#[derive(Clone)]
pub struct Simulation {
    /// Clock of timeouts, waits between attempts and connections. A [manual](Clock::manual) one makes them take no
    /// time.
    pub clock: Clock,
    /// Settings of the stores that the loader's configuration does not have, such as a [`StoreConfig::part_bytes`] with
    /// which small objects have several parts.
    pub store: StoreConfig,
}

impl Default for Simulation {
    /// No simulation: the system's clock and the usual settings.
    fn default() -> Self {
        Self { clock: Clock::system(), store: StoreConfig::default() }
    }
}

/// Default of [`StoreConfig::part_bytes`].
const PART_BYTES: usize = 8 << 20;

/// Default of [`StoreConfig::upload_part_bytes`]. Oracle accepts no parts below 10 MiB, S3 none below 5.
const UPLOAD_PART_BYTES: usize = 16 << 20;

/// Callback of every fetch thread as it starts, with its number. It can pin the thread to its NUMA node.
pub type ThreadStart = Arc<dyn Fn(usize) + Send + Sync>;

/// Sockets of the fetch threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// tokio's readiness-based sockets: faster in every measurement so far.
    #[default]
    Readiness,
    /// Socket reads and writes through the thread's io_uring. Without io_uring this means `Readiness`.
    Uring,
}

/// Settings of the fetch threads and of every request they make.
#[derive(Clone)]
pub struct StoreConfig {
    /// Number of fetch threads. One saturates about 1.4 GiB/s with TLS and 2.7 GiB/s without. The loader sets
    /// [`Topology::fetch_threads_default`](forebay_core::topology::Topology::fetch_threads_default).
    pub fetch_threads: usize,
    /// Largest range of an object that is fetched by one request, in bytes.
    pub part_bytes: usize,
    /// Part of an object that is uploaded by one request, in bytes; smaller objects are not divided. Objects of more
    /// parts than the store allows have larger ones.
    pub upload_part_bytes: usize,
    /// Bytes of one [`Destination`](super::Destination) that may wait for the store's confirmation; a larger part
    /// proceeds alone.
    pub upload_bytes: usize,
    /// Uploads, listings and removals of one destination in flight.
    pub uploads_in_flight: usize,
    /// Ranges in flight per fetch thread at first, without those that wait for their next attempt.
    pub parts_in_flight: usize,
    /// Most ranges in flight per fetch thread; also its idle connections per host. Their number grows where that raises
    /// the rate of bytes, at a high latency or where the server limits each connection. A smaller value than
    /// `parts_in_flight` means the same as that.
    pub parts_in_flight_max: usize,
    /// Total attempts for every range, including the first one: at least 1.
    pub download_retry: u32,
    /// Total attempts, at least 1, as long as the server has accepted no connection: it may not exist. No more than
    /// `download_retry` are made in any case.
    pub first_contact_retry: u32,
    /// Longest time before the head of a response, and for each 16 KiB of its body or the end of it. Then an attempt
    /// fails.
    pub download_timeout: Duration,
    /// Longest time in which the pages of a listing have no entry.
    pub stall_timeout: Duration,
    /// Longest wait before the second attempt; doubles with every further one. The wait itself is drawn below it.
    pub backoff_first: Duration,
    /// Upper bound of the wait between two attempts, also of a `Retry-After` from the server.
    pub backoff_max: Duration,
    /// Seed of the random waits between attempts, and of the names of uploads. By default random: processes that failed
    /// together do not retry together.
    pub seed: u64,
    /// `User-Agent` of every request.
    pub user_agent: String,
    /// Certificates (PEM) to trust in addition to the system's, for stores with a private authority.
    pub ca_file: Option<PathBuf>,
    /// Proxies; `None` reads `HTTPS_PROXY` and further variables of the environment.
    pub proxies: Option<Proxies>,
    /// Use io_uring on fetch threads where the kernel allows it.
    pub io_uring: bool,
    /// Kind of sockets.
    pub transport: Transport,
    /// Settings of `s3://`; `None` reads the environment and the AWS files when the first `s3://` remote is opened.
    pub s3: Option<S3Settings>,
    /// Settings of `gs://`; `None` reads the environment and gcloud's file when the first `gs://` remote is opened.
    pub gcs: Option<GcsSettings>,
    /// Settings of `azure://` and `azure-dl://`; `None` reads the environment when the first such remote is opened.
    pub azure: Option<AzureSettings>,
    /// Settings of `hf://`; `None` reads the environment and the token's file when the first `hf://` remote is opened.
    pub hf: Option<HfSettings>,
    /// Settings of `oci://`; `None` reads Oracle's configuration file when the first `oci://` remote is opened.
    pub oci: Option<OciSettings>,
    /// Settings of `dbfs:/Volumes`; `None` reads the environment and Databricks' file when the first such remote is
    /// opened.
    pub dbfs: Option<DbfsSettings>,
    /// Stores of the schemes that the engine has no transport for.
    pub library: Option<LibraryStores>,
    /// Called first on every fetch thread.
    pub on_thread_start: Option<ThreadStart>,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            fetch_threads: 1,
            part_bytes: PART_BYTES,
            upload_part_bytes: UPLOAD_PART_BYTES,
            upload_bytes: 4 * UPLOAD_PART_BYTES,
            uploads_in_flight: 16,
            parts_in_flight: 8,
            parts_in_flight_max: 128,
            download_retry: 2,
            first_contact_retry: u32::MAX,
            download_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(600),
            backoff_first: Duration::from_secs(1),
            backoff_max: Duration::from_secs(30),
            seed: RandomState::new().build_hasher().finish(),
            user_agent: concat!("forebay/", env!("CARGO_PKG_VERSION")).to_owned(),
            ca_file: None,
            proxies: None,
            io_uring: true,
            transport: Transport::default(),
            s3: None,
            gcs: None,
            azure: None,
            hf: None,
            oci: None,
            dbfs: None,
            library: None,
            on_thread_start: None,
        }
    }
}

impl StoreConfig {
    /// Returns the `parts_in_flight_max` of each of `processes` processes that share a machine's network. Without a
    /// share, each takes a larger part by more requests: in one process, a full network in shared use looks like a
    /// server that limits each connection.
    pub fn parts_in_flight_max_of(&self, processes: usize) -> usize {
        (self.parts_in_flight_max / processes.max(1)).max(self.parts_in_flight_max.min(2 * self.parts_in_flight))
    }

    /// Checks all bounds.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) with a message that names the fix.
    pub fn validate(&self) -> Result<()> {
        let check = |ok: bool, what: &str| if ok { Ok(()) } else { Err(Error::config(what)) };
        check((1..=256).contains(&self.fetch_threads), "fetch_threads must be from 1 to 256")?;
        check((1..=1024).contains(&self.parts_in_flight), "parts_in_flight must be from 1 to 1024")?;
        check(self.parts_in_flight_max <= 1024, "parts_in_flight_max must be at most 1024")?;
        check(self.part_bytes >= 1, "part_bytes must be at least 1")?;
        check(self.upload_part_bytes >= 1, "upload_part_bytes must be at least 1")?;
        check((1..=1024).contains(&self.uploads_in_flight), "uploads_in_flight must be from 1 to 1024")?;
        check(self.download_retry >= 1, "download_retry is the total number of attempts: set it to 1 or more")?;
        check(self.first_contact_retry >= 1, "first_contact_retry is a number of attempts: set it to 1 or more")?;
        check(!self.download_timeout.is_zero(), "download_timeout must be more than 0 seconds")?;
        check(
            !self.user_agent.is_empty() && self.user_agent.bytes().all(|b| (0x20..0x7f).contains(&b)),
            "user_agent must be printable ASCII",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_attempts_are_rejected_with_the_fix() {
        let config = StoreConfig { download_retry: 0, ..StoreConfig::default() };
        let error = config.validate().expect_err("0 attempts");
        assert!(error.to_string().contains("set it to 1 or more"), "{error}");
        StoreConfig::default().validate().expect("defaults are valid");
    }
}
