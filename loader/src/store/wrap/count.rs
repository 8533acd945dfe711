//! What a remote is asked and how much it gives.

use crate::store::source::{Body, Failure, GetRequest, GetResponse, ObjectInfo, Source};
use crate::store::thread::ThreadContext;
use crate::sync::{Arc, AtomicU64, Ordering};
use async_trait::async_trait;
use bytes::Bytes;

/// Counters of one remote.
#[derive(Debug, Default)]
pub struct Counts {
    gets: AtomicU64,
    failed: AtomicU64,
    lists: AtomicU64,
    puts: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    /// Requests for (ranges of) objects, further attempts included.
    pub fn gets(&self) -> u64 {
        self.gets.load(Ordering::Relaxed)
    }

    /// Those that failed before the first byte.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Listings.
    pub fn lists(&self) -> u64 {
        self.lists.load(Ordering::Relaxed)
    }

    /// Objects written.
    pub fn puts(&self) -> u64 {
        self.puts.load(Ordering::Relaxed)
    }

    /// Bytes of objects received.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct Count {
    inner: Arc<dyn Source>,
    counts: Arc<Counts>,
}

impl Count {
    pub(crate) fn new(inner: Arc<dyn Source>, counts: Arc<Counts>) -> Self {
        Self { inner, counts }
    }
}

#[async_trait(?Send)]
impl Source for Count {
    async fn get(&self, at: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure> {
        self.counts.gets.fetch_add(1, Ordering::Relaxed);
        match self.inner.get(at, request).await {
            Ok(mut response) => {
                response.body = Box::new(CountBody { inner: response.body, counts: self.counts.clone() });
                Ok(response)
            }
            Err(failure) => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                Err(failure)
            }
        }
    }

    fn has_ranges(&self) -> bool {
        self.inner.has_ranges()
    }

    async fn list(&self, at: &ThreadContext, prefix: &str) -> Result<Vec<ObjectInfo>, Failure> {
        self.counts.lists.fetch_add(1, Ordering::Relaxed);
        self.inner.list(at, prefix).await
    }

    async fn put(&self, at: &ThreadContext, key: &str, bytes: Bytes) -> Result<(), Failure> {
        self.counts.puts.fetch_add(1, Ordering::Relaxed);
        self.inner.put(at, key, bytes).await
    }
}

struct CountBody {
    inner: Box<dyn Body>,
    counts: Arc<Counts>,
}

#[async_trait(?Send)]
impl Body for CountBody {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let n = self.inner.read(out).await?;
        self.counts.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
