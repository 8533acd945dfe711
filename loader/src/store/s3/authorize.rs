//! Signatures of S3, which other stores accept as well.

use crate::Error;
use crate::store::failure::Failure;
use bytes::Bytes;
use http::Request;
use object_store::aws::AwsAuthorizer;
use object_store::client::HttpRequest;

/// Signs `request`.
pub(crate) fn authorize(request: &mut Request<Bytes>, authorizer: &AwsAuthorizer<'_>) -> Result<(), Failure> {
    let mut signed = HttpRequest::new(request.body().clone().into());
    *signed.method_mut() = request.method().clone();
    *signed.uri_mut() = request.uri().clone();
    *signed.headers_mut() = std::mem::take(request.headers_mut());
    authorizer
        .try_authorize(&mut signed, None)
        .map_err(|e| Failure::permanent(Error::internal("the request cannot be signed").caused_by(e)))?;
    *request.headers_mut() = std::mem::take(signed.headers_mut());
    Ok(())
}
