//! Requests to token services.

use super::search::{is_no_service, is_temporary};
use super::token::Token;
use crate::context::ThreadContext;
use crate::failure::Failure;
use crate::http::{call, rejection};
use crate::{Error, ErrorKind};
use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use std::time::Duration;
use url::form_urlencoded::Serializer;

/// Lifetime of a token if the response has none.
const LIFETIME_DEFAULT: Duration = Duration::from_secs(3600);

#[derive(Deserialize)]
struct Response {
    #[serde(alias = "accessToken")]
    access_token: String,
    expires_in: Option<u64>,
}

/// Creates a request that posts a form.
pub(crate) fn form(address: &str, pairs: &[(&str, &str)]) -> Result<Request<Bytes>, Failure> {
    let mut body = Serializer::new(String::new());
    body.extend_pairs(pairs);
    let mut request = Request::post(address)
        .body(Bytes::from(body.finish()))
        .map_err(|e| Failure::permanent(Error::config("the address of a token service is not valid").caused_by(e)))?;
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    Ok(request)
}

/// Sends a request for a token. Neither the request nor the response is part of an error.
pub(crate) async fn fetch_token(
    context: &ThreadContext,
    request: &Request<Bytes>,
    limit: Duration,
) -> Result<Token, Failure> {
    let host = request.uri().host().unwrap_or_default();
    let (head, body) = call(context, request, limit).await?;
    if !head.status.is_success() {
        let is_retried = is_temporary(head.status);
        let rejection = rejection(host, &head, &body);
        let why = format!("there is no token for the credentials: {rejection}; check them and this machine's clock");
        let kind = if is_retried { ErrorKind::Network } else { ErrorKind::Permission };
        return Err(Failure {
            is_absent: is_no_service(head.status),
            ..Failure::new(Error::new(kind, why), is_retried)
        });
    }
    let response: Response = serde_json::from_slice(&body).map_err(|_| {
        let why = format!("{host} responds without a token that can be read");
        Failure::permanent(Error::new(ErrorKind::Permission, why))
    })?;
    let lifetime = response.expires_in.map_or(LIFETIME_DEFAULT, Duration::from_secs);
    Token::new(&context.shared, &response.access_token, lifetime).map_err(Failure::permanent)
}
