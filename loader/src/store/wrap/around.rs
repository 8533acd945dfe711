//! A remote of which only the reading differs from the one inside.

use crate::store::source::{Failure, GetRequest, GetResponse, ObjectInfo, Source};
use crate::store::thread::ThreadContext;
use crate::sync::Arc;
use async_trait::async_trait;
use bytes::Bytes;
use std::fmt::Debug;

/// What happens to one exchange on its way to the remote inside.
#[async_trait(?Send)]
pub(super) trait Exchange: Debug + Send + Sync {
    /// Asks `inner`, or does not.
    async fn get(&self, inner: &dyn Source, at: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure>;
}

/// The remote inside, its reading as `exchange` says.
#[derive(Debug)]
pub(crate) struct Around<E> {
    inner: Arc<dyn Source>,
    exchange: E,
}

impl<E> Around<E> {
    pub(crate) fn new(inner: Arc<dyn Source>, exchange: E) -> Self {
        Self { inner, exchange }
    }
}

#[async_trait(?Send)]
impl<E: Exchange> Source for Around<E> {
    async fn get(&self, at: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure> {
        self.exchange.get(&*self.inner, at, request).await
    }

    fn has_ranges(&self) -> bool {
        self.inner.has_ranges()
    }

    async fn list(&self, at: &ThreadContext, prefix: &str) -> Result<Vec<ObjectInfo>, Failure> {
        self.inner.list(at, prefix).await
    }

    async fn put(&self, at: &ThreadContext, key: &str, bytes: Bytes) -> Result<(), Failure> {
        self.inner.put(at, key, bytes).await
    }
}
