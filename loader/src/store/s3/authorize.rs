//! Signatures of S3, which other stores accept as well.

use crate::store::credentials::sign_with;
use crate::store::failure::Failure;
use bytes::Bytes;
use http::Request;
use object_store::aws::AwsAuthorizer;

/// Signs `request`.
pub(crate) fn authorize(request: &mut Request<Bytes>, authorizer: &AwsAuthorizer<'_>) -> Result<(), Failure> {
    sign_with(request, |signed| authorizer.try_authorize(signed, None))
}
