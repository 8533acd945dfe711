//! Signatures of S3, which many stores accept as well.

use crate::credentials::sign_with;
use crate::destination::Payload;
use crate::failure::Failure;
use bytes::Bytes;
use http::Request;
use object_store::aws::AwsAuthorizer;

/// Signs `request`. The bytes of an upload are its extension, and their digest is part of the signature.
pub(crate) fn authorize(request: &mut Request<Bytes>, authorizer: &AwsAuthorizer<'_>) -> Result<(), Failure> {
    let payload = request.extensions().get::<Payload>().filter(|payload| !payload.is_empty()).cloned();
    let digest = payload.as_ref().map(|payload| &payload.sha256()[..]);
    sign_with(request, |signed| authorizer.try_authorize(signed, digest))
}
