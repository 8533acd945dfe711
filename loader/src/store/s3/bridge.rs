//! object_store's requests over our connections: its credential providers and its listing ask through here.
//!
//! Its futures have to be `Send` and our connections stay on their thread, so a request becomes a call on a fetch
//! thread and its answer comes back whole. These are tokens and pages of listings, a few kilobytes to a megabyte.

use crate::store::http::{Exchange, HttpBody};
use crate::store::source::{Body as _, Failure};
use crate::store::thread::{Call, Shared, ThreadContext};
use crate::sync::{Arc, Mutex, Weak};
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use std::fmt;
use std::time::Duration;

/// Largest answer that is taken.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// Metadata services answer at once or are not there.
const METADATA_LIMIT: Duration = Duration::from_secs(2);

/// Hosts of metadata services: instance (4 and 6), container.
const METADATA_HOSTS: [&str; 3] = ["169.254.169.254", "[fd00:ec2::254]", "169.254.170.2"];

/// Sends requests over the fetch threads; holds them weakly, because they hold the sources that hold this.
#[derive(Clone)]
pub(super) struct Bridge {
    shared: Weak<Shared>,
    last: Arc<Mutex<Option<(StatusCode, HeaderMap)>>>,
}

impl Bridge {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::downgrade(shared), last: Arc::default() }
    }

    /// Another bridge to the same threads, with its own [`last`](Self::last).
    pub(super) fn another(&self) -> Self {
        Self { shared: self.shared.clone(), last: Arc::default() }
    }

    /// Status and headers of the last answer, which the library's errors do not tell.
    pub(super) fn last(&self) -> Option<(StatusCode, HeaderMap)> {
        self.last.lock().clone()
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bridge")
    }
}

impl HttpConnector for Bridge {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Bridge {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let closed = || HttpError::new(HttpErrorKind::Unknown, Error::new(ErrorKind::Closed, "the store was closed"));
        let (head, body) = request.into_parts();
        // Only uploads have bodies in several pieces, and those do not come this way.
        let body = body.as_bytes().cloned().unwrap_or_default();
        let request = http::Request::from_parts(head, body);
        let (send, receive) = tokio::sync::oneshot::channel();
        let call: Call = Box::new(move |context| {
            Box::pin(async move {
                // Nobody waits any more when the caller was cancelled.
                let _ = send.send(exchange(&context, request).await);
            })
        });
        let pushed = self.shared.upgrade().map(|shared| shared.calls.push_all(vec![call], false));
        if !matches!(pushed, Some(Ok(()))) {
            return Err(closed());
        }
        match receive.await {
            Ok(Ok(response)) => {
                *self.last.lock() = Some((response.status(), response.headers().clone()));
                Ok(response)
            }
            Ok(Err(failure)) => {
                let kind = match failure.error.kind() {
                    ErrorKind::Timeout => HttpErrorKind::Timeout,
                    ErrorKind::Network => HttpErrorKind::Connect,
                    _ => HttpErrorKind::Unknown,
                };
                Err(HttpError::new(kind, failure.error))
            }
            Err(_) => Err(closed()),
        }
    }
}

async fn exchange(context: &ThreadContext, request: http::Request<Bytes>) -> Result<HttpResponse, Failure> {
    let is_metadata = request.uri().host().is_some_and(|host| METADATA_HOSTS.contains(&host));
    let limit = if is_metadata { METADATA_LIMIT } else { context.shared.config.download_timeout };
    let exchange = context.client.send(context, &request, limit).await?;
    let (mut head, ()) = http::Response::new(()).into_parts();
    head.status = exchange.response.status();
    head.headers = exchange.response.headers().clone();
    let body = collect(context, exchange, limit).await?;
    Ok(HttpResponse::from_parts(head, HttpResponseBody::from(body)))
}

async fn collect(context: &ThreadContext, exchange: Exchange, limit: Duration) -> Result<Bytes, Failure> {
    let mut body = HttpBody::new(context, exchange);
    let mut bytes = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match context.within(limit, body.read(&mut chunk)).await {
            Some(Ok(0)) => return Ok(bytes.into()),
            Some(Ok(n)) => bytes.extend_from_slice(&chunk[..n]),
            Some(Err(failure)) => return Err(failure),
            None => return Err(Failure::transient(Error::new(ErrorKind::Timeout, "the answer stopped coming"))),
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(Failure::last(Error::format("the answer is larger than 64 MiB")));
        }
    }
}
