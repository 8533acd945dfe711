//! Requests of object_store over our connections, for its credential providers.
//!
//! Its futures have to be `Send` and our connections stay on their thread, so a request becomes a call on a fetch
//! thread that returns the whole response, a token of a few kilobytes.

use crate::store::context::ThreadContext;
use crate::store::failure::Failure;
use crate::store::http::{Exchange, HttpBody, send};
use crate::store::source::Body as _;
use crate::store::threads::{Call, FetchQueues};
use crate::sync::{Arc, Weak};
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use bytes::Bytes;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use std::fmt;
use std::time::Duration;

/// Largest response that is accepted.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// Time limit for metadata services, which answer at once or do not exist.
const METADATA_LIMIT: Duration = Duration::from_secs(2);

/// Hosts of metadata services: instance (4 and 6), container.
const METADATA_HOSTS: [&str; 3] = ["169.254.169.254", "[fd00:ec2::254]", "169.254.170.2"];

/// Sends requests over the fetch threads. The reference is weak, because queued parts own sources that own this.
#[derive(Clone)]
pub(super) struct Bridge {
    queues: Weak<FetchQueues>,
}

impl Bridge {
    pub(super) fn new(queues: &Arc<FetchQueues>) -> Self {
        Self { queues: Arc::downgrade(queues) }
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
        // Only uploads have bodies in several pieces, and they do not use the bridge.
        let body = body.as_bytes().cloned().unwrap_or_default();
        let request = http::Request::from_parts(head, body);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let call: Call = Box::new(move |context| {
            Box::pin(async move {
                // Fails if the caller was cancelled.
                let _ = sender.send(exchange(&context, request).await);
            })
        });
        let pushed = self.queues.upgrade().map(|queues| queues.calls.push_all(vec![call], false));
        if !matches!(pushed, Some(Ok(()))) {
            return Err(closed());
        }
        match receiver.await {
            Ok(Ok(response)) => Ok(response),
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
    let exchange = send(context, &request, limit).await?;
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
            None => {
                return Err(Failure::transient(Error::new(ErrorKind::Timeout, "the answer stopped before its end")));
            }
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(Failure::permanent(Error::format("the answer is larger than 64 MiB")));
        }
    }
}
