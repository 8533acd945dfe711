//! Signatures of object_store for our requests.

use crate::Error;
use crate::failure::Failure;
use bytes::Bytes;
use http::Request;
use http::header::ACCEPT_ENCODING;
use object_store::client::HttpRequest;

/// Signs `request` with `sign`, a function of the library. It may change the headers and the address.
pub(crate) fn sign_with(
    request: &mut Request<Bytes>,
    sign: impl FnOnce(&mut HttpRequest) -> object_store::Result<()>,
) -> Result<(), Failure> {
    let mut signed = HttpRequest::new(request.body().clone().into());
    *signed.method_mut() = request.method().clone();
    *signed.uri_mut() = request.uri().clone();
    *signed.headers_mut() = std::mem::take(request.headers_mut());
    // Not signed, because servers on the way may change it: Google's front end does.
    let encoding = signed.headers_mut().remove(ACCEPT_ENCODING);
    sign(&mut signed).map_err(|e| Failure::permanent(Error::internal("the request cannot be signed").caused_by(e)))?;
    *request.headers_mut() = std::mem::take(signed.headers_mut());
    *request.uri_mut() = signed.uri().clone();
    if let Some(encoding) = encoding {
        request.headers_mut().insert(ACCEPT_ENCODING, encoding);
    }
    Ok(())
}
