//! One request and its answer over a new connection.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::error::Error;
use tokio::io::{AsyncRead, AsyncWrite};

/// Sends `request` over `stream`. Returns the status and the body of the answer, which has at most `answer_max` bytes.
///
/// # Errors
///
/// A connection that ends, an answer that is no HTTP, or a longer body.
pub(super) async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    answer_max: usize,
) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driven = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), answer_max).collect().await?;
    driven.abort();
    Ok((status, body.to_bytes()))
}
