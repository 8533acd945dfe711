//! Attempts and resumption against a source that fails at random.

use super::context::ThreadContext;
use super::failure::Failure;
use super::retry::Draws;
use super::source::{Body, GetRequest, GetResponse, Source};
use super::{FetchRequest, Remote, StoreConfig, Stores, Version};
use crate::ErrorKind;
use async_trait::async_trait;
use forebay_core::clock::Clock;
use forebay_core::stats::Stats;
use forebay_core::sync::{Arc, AtomicU64, Mutex, Ordering};
use std::time::Duration;

/// Range in which a body breaks off or has a flipped bit, in bytes from its start.
const FAULT_BYTES: u64 = 1 << 20;

/// Frequency of failures. The same seed and order of requests give the same failures.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    seed: u64,
    /// Requests of a thousand without a response.
    refuse_per_mille: u64,
    /// Bodies of a thousand that break off.
    cut_per_mille: u64,
    /// Bodies of a thousand with a flipped bit.
    flip_per_mille: u64,
}

/// Source that fails at random and counts the bytes that it received.
struct FaultSource {
    inner: Arc<dyn Source>,
    faults: Faults,
    draws: Mutex<Draws>,
    bytes: Arc<AtomicU64>,
}

#[async_trait(?Send)]
impl Source for FaultSource {
    async fn get(&self, context: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure> {
        // Always five draws, so that the faults are independent.
        let [refuse, cut, flip, cut_at, flip_at] = {
            let mut draws = self.draws.lock();
            std::array::from_fn(|_| draws.next())
        };
        if refuse % 1000 < self.faults.refuse_per_mille {
            return Err(Failure::network("refused by the test"));
        }
        let mut response = self.inner.get(context, request).await?;
        let reach = response.head.promised.unwrap_or(FAULT_BYTES).clamp(1, FAULT_BYTES);
        response.body = Box::new(FaultBody {
            inner: response.body,
            at: 0,
            cut_at: (cut % 1000 < self.faults.cut_per_mille).then_some(cut_at % reach),
            flip_at: (flip % 1000 < self.faults.flip_per_mille).then_some(flip_at % reach),
            bytes: self.bytes.clone(),
        });
        Ok(response)
    }

    fn has_ranges(&self) -> bool {
        self.inner.has_ranges()
    }

    /// As the folder: a second request for a late part would be counted as bytes that were fetched twice.
    fn is_on_network(&self) -> bool {
        self.inner.is_on_network()
    }
}

struct FaultBody {
    inner: Box<dyn Body>,
    /// Bytes read so far.
    at: u64,
    cut_at: Option<u64>,
    flip_at: Option<u64>,
    bytes: Arc<AtomicU64>,
}

#[async_trait(?Send)]
impl Body for FaultBody {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let remaining = self.cut_at.map_or(u64::MAX, |cut| cut - self.at);
        if remaining == 0 {
            return Err(Failure::network("cut by the test"));
        }
        let n = out.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
        let n = self.inner.read(&mut out[..n]).await?;
        if let Some(flip) = self.flip_at.and_then(|flip| flip.checked_sub(self.at)).filter(|&flip| flip < n as u64) {
            out[flip as usize] ^= 1;
        }
        self.at += n as u64;
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Returns bytes that differ at all offsets that a bug could swap.
fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// A folder with one object of `len` bytes, behind a source with `faults`.
struct Rig {
    _folder: tempfile::TempDir,
    stats: Arc<Stats>,
    remote: Remote,
    /// Bytes that passed the source.
    bytes: Arc<AtomicU64>,
}

impl Rig {
    fn new(len: usize, download_retry: u32, faults: Faults) -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        std::fs::write(folder.path().join("shard"), content(len)).expect("written");
        let config = StoreConfig {
            fetch_threads: 2,
            part_bytes: 100,
            parts_in_flight: 4,
            download_retry,
            ..StoreConfig::default()
        };
        let (stats, bytes) = (Arc::new(Stats::default()), Arc::new(AtomicU64::new(0)));
        let stores = Stores::new(config, &stats, Clock::manual()).expect("threads");
        let remote = stores.open(folder.path().to_str().expect("UTF-8")).expect("valid");
        let remote = remote.wrapped(|inner| {
            Arc::new(FaultSource { inner, faults, draws: Mutex::new(Draws::new(faults.seed)), bytes: bytes.clone() })
        });
        Self { _folder: folder, stats, remote, bytes }
    }

    fn fetch(&self, len: usize) -> Vec<u8> {
        self.remote.fetch(FetchRequest::new("shard", len)).expect("queued").wait().expect("fetched").into()
    }
}

#[test]
fn a_faulty_source_is_resumed_and_no_byte_is_fetched_twice() {
    let faults = Faults { seed: 7, refuse_per_mille: 200, cut_per_mille: 300, ..Faults::default() };
    let rig = Rig::new(20_000, 50, faults);
    assert_eq!(rig.fetch(20_000), content(20_000));
    let retries = rig.stats.counter("store_retries").get();
    assert!(retries > 50, "{retries} retries");
    assert_eq!(rig.bytes.load(Ordering::Relaxed), 20_000);
}

#[test]
fn a_flipped_bit_passes_because_callers_compare_hashes() {
    let rig = Rig::new(100, 3, Faults { flip_per_mille: 1000, ..Faults::default() });
    let wrong = rig.fetch(100).iter().zip(content(100)).filter(|(a, b)| **a != *b).count();
    assert_eq!(wrong, 1);
}

/// Source that takes 50 seconds for a response, which has one byte.
struct ByteSource(Arc<dyn Source>);

#[async_trait(?Send)]
impl Source for ByteSource {
    async fn get(&self, context: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure> {
        let start = request.range.as_ref().map_or(0, |range| range.start);
        let mut response =
            self.0.get(context, &GetRequest { range: Some(start..start + 1), ..request.clone() }).await?;
        response.head.promised = Some(1);
        context.shared.clock.advance(Duration::from_secs(50));
        tokio::task::yield_now().await;
        Ok(response)
    }
}

#[test]
fn responses_of_a_byte_each_end_with_the_attempt_and_keep_their_bytes() {
    let rig = Rig::new(100, 2, Faults::default());
    let remote = rig.remote.wrapped(|inner| Arc::new(ByteSource(inner)));
    let error = remote.fetch(FetchRequest::new("shard", 100)).expect("queued").wait().expect_err("too slow");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let text = error.to_string();
    assert!(text.contains("the attempt did not end within 120 s") && text.contains("attempt 2 of 2"), "{text}");
    // Two whole responses of an attempt, and the third one is over its time.
    assert!(text.contains("range 4..100"), "{text}");
}

/// Folder that counts as one behind a network, where responses of a wrong length are tried again.
struct NetworkSource(Arc<dyn Source>);

#[async_trait(?Send)]
impl Source for NetworkSource {
    async fn get(&self, context: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure> {
        self.0.get(context, request).await
    }
}

#[test]
fn an_object_that_has_changed_is_not_tried_again_and_a_response_of_a_wrong_length_is() {
    let rig = Rig::new(200, 3, Faults::default());
    let remote = rig.remote.wrapped(|inner| Arc::new(NetworkSource(inner)));
    let version = remote.get_small("shard", 200).expect("there").1.expect("a version");
    let other = Version::ETag("other".into());
    let mut retries = 0;
    for (first, listed, is_changed) in [
        (Some(&other), None, true),
        (None, other.etag(), true),
        (Some(&version), other.etag(), false),
        (None, version.etag(), false),
        (None, None, false),
    ] {
        let mut request = FetchRequest::new("shard", 90);
        (request.version, request.listed_tag) = (first.cloned(), listed.map(str::to_owned));
        let error = remote.fetch(request).expect("queued").wait().expect_err("a different length");
        assert_eq!(error.kind(), if is_changed { ErrorKind::Stale } else { ErrorKind::Checksum }, "{error}");
        retries += if is_changed { 0 } else { 2 };
        assert_eq!(rig.stats.counter("store_retries").get(), retries, "{first:?} {listed:?}");
    }
    // A tag of a different origin is not compared.
    let mut request = FetchRequest::new("shard", 200);
    request.listed_tag = Some("other".into());
    assert_eq!(*remote.fetch(request).expect("queued").wait().expect("fetched"), *content(200));
    let mut request = FetchRequest::new("shard", 200);
    request.listed_tag = Some("1-2-3-200".into());
    let error = remote.fetch(request).expect("queued").wait().expect_err("replaced");
    assert!(error.kind() == ErrorKind::Stale && error.to_string().contains("after it was listed"), "{error}");
}

/// Environment variable of the process that a test starts to run itself without free descriptors.
const NO_DESCRIPTORS: &str = "FOREBAY_TEST_NO_DESCRIPTORS";

#[test]
fn fetch_threads_without_descriptors_are_an_error_with_the_reason() {
    if std::env::var_os(NO_DESCRIPTORS).is_none() {
        let test = "tests::fetch_threads_without_descriptors_are_an_error_with_the_reason";
        let mut process = std::process::Command::new(std::env::current_exe().expect("a path"));
        let output = process.args(["--exact", test]).env(NO_DESCRIPTORS, "1").output().expect("started");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let next = std::fs::File::open("/dev/null").expect("opened");
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = Some(std::os::fd::AsRawFd::as_raw_fd(&next) as u64);
    drop(next);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("set");
    let stores = Stores::new(StoreConfig::default(), &Arc::new(Stats::default()), Clock::system());
    let fetched = stores.and_then(|stores| stores.open("/nowhere")?.fetch(FetchRequest::new("shard", 1))?.wait());
    let error = fetched.expect_err("no descriptors");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(error.to_string().contains("too many open files, raise its limit (ulimit -n)"), "{error}");
}
