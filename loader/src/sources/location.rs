//! Addresses of files, split into the root that a remote names and the path of the file below it.

use super::wildcards::is_pattern;
use crate::error::{Error, ErrorKind, Result};
use crate::store::redact;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// File of a store or of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location<'a> {
    /// Scheme and server or bucket, without a slash at the end; `/` for an absolute path and empty for a relative one.
    pub(super) root: &'a str,
    /// Folders below the root, and the file's name last.
    pub(super) parts: Vec<&'a str>,
}

/// Returns the path of `url`, and true if there is a query after it.
pub(super) fn without_query(url: &str) -> (&str, bool) {
    let is_web = is_web(url);
    let starts_query = |at: usize| {
        // A `?` alone is a wildcard, except on a web server, which has no listing.
        let name = url[at + 1..].bytes().take_while(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b)).count();
        is_web || name > 0 && url.as_bytes().get(at + 1 + name) == Some(&b'=')
    };
    let fragment = if is_web { url.find('#') } else { None };
    let query = url.match_indices('?').map(|(at, _)| at).find(|at| starts_query(*at));
    match query.into_iter().chain(fragment).min() {
        Some(at) => (&url[..at], true),
        None => (url, false),
    }
}

/// Returns true for the address of a web server.
pub(super) fn is_web(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

impl<'a> Location<'a> {
    /// Splits the address of a file, which has no query.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if it names no file.
    pub(super) fn parse(url: &'a str) -> Result<Self> {
        let reject = |why: &str| Err(Error::config(why.to_owned()).with("file", redact(url)));
        let Some(server) = server_at(url) else {
            let path = match url.strip_prefix("file:") {
                None => url,
                Some(rest) => {
                    let path = rest.strip_prefix("//").map(|rest| rest.strip_prefix("localhost").unwrap_or(rest));
                    match path.filter(|path| path.starts_with('/')) {
                        Some(path) => path,
                        None => {
                            return reject("a file: address has three slashes and a whole path: file:///data/a.tar");
                        }
                    }
                }
            };
            let root = if path.starts_with('/') { "/" } else { "" };
            let parts = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
            return Ok(Self { root, parts });
        };
        let mut slashes = url[server..].match_indices('/').map(|(at, _)| server + at);
        let Some(end) = slashes.nth(root_parts(url, &url[server..]) - 1) else {
            return reject("this is a whole bucket or server: add the path of a file");
        };
        let parts: Vec<_> = url[end + 1..].split('/').collect();
        if parts.contains(&"") {
            return reject("the path of a file has no slash at its start or end and no two in a row");
        }
        Ok(Self { root: &url[..end], parts })
    }

    /// Returns the number of folders before the first part with a wildcard.
    pub(super) fn plain_folders(&self) -> usize {
        let folders = &self.parts[..self.parts.len().saturating_sub(1)];
        folders.iter().position(|part| is_pattern(part)).unwrap_or(folders.len())
    }

    /// Returns the address of the folder of the first `count` parts.
    pub(super) fn folder(&self, count: usize) -> String {
        let path = self.parts[..count].join("/");
        match (self.root, path.is_empty()) {
            ("", true) => ".".to_owned(),
            ("", false) => path,
            ("/", _) => format!("/{path}"),
            (root, true) => root.to_owned(),
            (root, false) => format!("{root}/{path}"),
        }
    }

    /// Returns the name below the folder of the first `count` parts: the key, which addresses of web servers encode.
    pub(super) fn name(&self, count: usize) -> Result<String> {
        let path = self.parts[count..].join("/");
        if !is_web(self.root) {
            return Ok(path);
        }
        let decoded = percent_decode_str(&path).decode_utf8().map(Cow::into_owned);
        decoded.ok().filter(|decoded| decoded.matches('/').count() == path.matches('/').count()).ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "an address must be in UTF-8 and without %2F: rename the file")
                .with("file", &path)
        })
    }
}

/// Returns the position after the scheme of an address; `None` for a path on this machine.
fn server_at(url: &str) -> Option<usize> {
    if url.starts_with("file:") {
        return None;
    }
    if url.starts_with("dbfs:/") {
        return Some("dbfs:/".len());
    }
    url.find("://").map(|at| at + "://".len())
}

/// Returns the number of parts after the scheme that name a bucket, container, repository, volume or server.
fn root_parts(url: &str, rest: &str) -> usize {
    let scheme = url.split(':').next().unwrap_or_default();
    let server = rest.split('/').next().unwrap_or_default();
    match scheme {
        // Volumes, catalog, schema, volume.
        "dbfs" => 4,
        // `datasets`, owner, name; and the parts of a reference such as `name@refs/pr/1`.
        "hf" if rest.split('/').nth(2).is_some_and(|name| name.ends_with("@refs")) => 5,
        "hf" => 3,
        // An account's host, container; the remaining forms have both in one part.
        "azure" | "wasbs" if !server.contains('@') => 2,
        "azure-dl" if !server.contains('@') && server.contains('.') => 2,
        _ => 1,
    }
}
