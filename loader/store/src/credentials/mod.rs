//! Credentials, as far as several clouds share it.
//!
//! * [`Bridge`] sends the requests of object_store's providers over our connections; [`sign_with`] signs requests with
//!   it;
//! * [`Search`] looks for the machine's own credentials, which need not exist; [`TokenCache`] keeps a bearer token
//!   until it expires or is rejected;
//! * `oauth`: requests to token services; [`SigningKey`] signs with an RSA key;
//! * `settings`: checks and representations that all settings of stores have in common; `ini` reads their files.
//!
//! A credential is sent only to the server that the remote names: see [`refuse_redirect`].

mod bridge;
mod ini;
mod library;
mod oauth;
mod search;
mod settings;
mod signing_key;
mod token;

pub(crate) use bridge::Bridge;
pub(crate) use ini::{Section, ini_sections, ini_value};
pub(crate) use library::sign_with;
pub(crate) use oauth::{fetch_token, form};
pub(crate) use search::Search;
pub(crate) use settings::{check_endpoint, check_sendable, is_true, read_text, shown, variable};
pub(crate) use signing_key::SigningKey;
pub(crate) use token::{Token, TokenCache};

use super::failure::Failure;
use super::http::Origin;
use crate::{Error, ErrorKind};
use http::Uri;
use std::time::Duration;

/// Time limit for metadata services, which respond at once or do not exist.
pub(crate) const METADATA_LIMIT: Duration = Duration::from_secs(2);

/// Returns true if two addresses lead to the same server.
pub(crate) fn is_same_server(one: &Uri, other: &str) -> bool {
    let other = other.parse().ok().and_then(|other| Origin::of(&other));
    other.is_some() && Origin::of(one) == other
}

/// Returns the error for a redirect to a different server: a server could redirect requests to any host, to get the
/// credentials of their headers.
pub(crate) fn refuse_redirect(to: &Uri) -> Failure {
    let why = "the store redirects to a different server, which may not have the credentials: set the endpoint to it";
    Failure::permanent(Error::new(ErrorKind::Permission, why).with("host", to.host().unwrap_or_default()))
}
