//! Requests of object_store over our connections, for its credential providers.
//!
//! Its futures have to be `Send` and our connections stay on their thread, so a request becomes a call on a fetch
//! thread that returns the whole response, a token of a few kilobytes.

use super::METADATA_LIMIT;
use super::search::{is_no_service, is_temporary};
use crate::failure::Failure;
use crate::http::{call, rejection};
use crate::queue::closed_error;
use crate::threads::FetchQueues;
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use bytes::Bytes;
use forebay_core::sync::{Arc, Mutex, Weak};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, CredentialProvider};

/// Hosts of metadata services: instance (4 and 6), container.
const METADATA_HOSTS: [&str; 3] = ["169.254.169.254", "[fd00:ec2::254]", "169.254.170.2"];

/// Sends requests over the fetch threads. The reference is weak, because queued parts own sources that own this.
#[derive(Clone, Debug)]
pub(crate) struct Bridge {
    queues: Weak<FetchQueues>,
    /// The last request, if it failed.
    last: Arc<Mutex<Option<LastFailure>>>,
}

/// Failure of a request of a provider.
#[derive(Debug)]
struct LastFailure {
    /// Host, status and code of a response without success.
    rejection: Option<String>,
    is_retried: bool,
    is_absent: bool,
}

impl Bridge {
    pub(crate) fn new(queues: &Arc<FetchQueues>) -> Self {
        Self { queues: Arc::downgrade(queues), last: Arc::default() }
    }

    /// Returns the credentials of `provider`, which the settings name.
    pub(crate) async fn named<T>(&self, provider: &dyn CredentialProvider<Credential = T>) -> Result<Arc<T>, Failure> {
        self.find(provider).await.map_err(|failure| {
            let why = "the credentials that the environment names cannot be loaded";
            Failure::transient(Error::new(ErrorKind::Permission, why).caused_by(failure.error.message().to_owned()))
        })
    }

    /// Returns the credentials of `provider`, a service of the machine that may not exist.
    pub(crate) async fn find<T>(&self, provider: &dyn CredentialProvider<Credential = T>) -> Result<Arc<T>, Failure> {
        *self.last.lock() = None;
        provider.get_credential().await.map_err(|e| {
            let error = Error::new(ErrorKind::Permission, self.describe(&e));
            let last = self.last.lock();
            let (is_retried, is_absent) = last.as_ref().map_or((true, false), |last| (last.is_retried, last.is_absent));
            Failure { is_absent, ..Failure::new(error, is_retried) }
        })
    }

    /// Describes a failed search for credentials. Errors of the library are not shown, since they contain addresses and
    /// responses, which may have secrets in them.
    fn describe(&self, error: &object_store::Error) -> String {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = cause {
            if let Some(own) = error.downcast_ref::<Error>() {
                return own.to_string();
            }
            if let Some(io) = error.downcast_ref::<std::io::Error>() {
                return io.to_string();
            }
            cause = error.source();
        }
        let rejection = self.last.lock().as_ref().and_then(|last| last.rejection.clone());
        rejection.unwrap_or_else(|| "their source gave a response that cannot be used".to_owned())
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
        let host = request.uri().host().unwrap_or_default().to_owned();
        let is_metadata = METADATA_HOSTS.contains(&&*host);
        let response = queues.call(async move |context| {
            let limit = if is_metadata { METADATA_LIMIT } else { context.shared.config.download_timeout };
            call(&context, &request, limit).await
        });
        let response = response.map_err(|_| closed())?;
        drop(queues);
        match response.await {
            Ok(Ok((head, body))) => {
                let rejected = || LastFailure {
                    rejection: Some(rejection(&host, &head, &body)),
                    is_retried: is_temporary(head.status),
                    is_absent: is_no_service(head.status),
                };
                *self.last.lock() = (!head.status.is_success()).then(rejected);
                Ok(HttpResponse::from_parts(head, HttpResponseBody::from(Bytes::from(body))))
            }
            Ok(Err(failure)) => {
                let Failure { is_retried, is_absent, .. } = failure;
                *self.last.lock() = Some(LastFailure { rejection: None, is_retried, is_absent });
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
