//! Requests of object_store over our connections, for its credential providers.
//!
//! Its futures have to be `Send` and our connections stay on their thread, so a request becomes a call on a fetch
//! thread that returns the whole response, a token of a few kilobytes.

use crate::store::context::ThreadContext;
use crate::store::failure::Failure;
use crate::store::http::{HttpBody, send};
use crate::store::queue::closed_error;
use crate::store::source::read_whole;
use crate::store::threads::FetchQueues;
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
        let closed = || HttpError::new(HttpErrorKind::Unknown, closed_error());
        let (head, body) = request.into_parts();
        // Only uploads have bodies in several pieces, and they do not use the bridge.
        let body = body.as_bytes().cloned().unwrap_or_default();
        let request = http::Request::from_parts(head, body);
        let queues = self.queues.upgrade().ok_or_else(closed)?;
        let answer = queues.call(async move |context| exchange(&context, request).await).map_err(|_| closed())?;
        drop(queues);
        match answer.await {
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
    let mut bytes = Vec::new();
    if !read_whole(context, &mut HttpBody::new(context, exchange), limit, ANSWER_BYTES_MAX, &mut bytes).await? {
        return Err(Failure::permanent(Error::format("the answer is larger than 64 MiB")));
    }
    Ok(HttpResponse::from_parts(head, HttpResponseBody::from(Bytes::from(bytes))))
}
