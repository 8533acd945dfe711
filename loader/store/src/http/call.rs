//! Exchanges with services that respond with a few kilobytes: tokens, metadata.

use super::body::HttpBody;
use super::client::send;
use super::response::error_code;
use crate::Error;
use crate::context::ThreadContext;
use crate::failure::Failure;
use crate::source::TimedBody;
use bytes::Bytes;
use http::Request;
use http::response::Parts;
use std::time::Duration;

const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// Sends `request`, with an absolute address, and reads the whole response. Redirects are not followed.
pub(crate) async fn call(
    context: &ThreadContext,
    request: &Request<Bytes>,
    limit: Duration,
) -> Result<(Parts, Vec<u8>), Failure> {
    let exchange = send(context, request, limit).await?;
    let (mut head, ()) = http::Response::new(()).into_parts();
    head.status = exchange.response.status();
    head.headers = exchange.response.headers().clone();
    let mut bytes = Vec::new();
    let mut body = HttpBody::new(context, exchange);
    if !TimedBody::new(context, &mut body, limit).read_whole(RESPONSE_BYTES_MAX, &mut bytes).await? {
        return Err(Failure::permanent(Error::format("the response is larger than 64 MiB")));
    }
    Ok((head, bytes))
}

/// Describes a response without success, without the parts of its text that may be secret.
pub(crate) fn rejection(host: &str, head: &Parts, body: &[u8]) -> String {
    let code = error_code(&head.headers, body).map(|code| format!(", {code}")).unwrap_or_default();
    format!("{host} responds with {}{code}", head.status.as_u16())
}
