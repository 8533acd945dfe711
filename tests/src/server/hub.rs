//! The Hugging Face hub: data sets with large files on a second server.

use super::objects::Object;
use http::StatusCode;

/// Data set on the hub. Its files are the server's objects.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    /// Owner and name.
    pub repository: String,
    /// Its only revision, as it is in an address.
    pub revision: String,
    /// Commit of the revision, which a request may name instead; empty: it is not named.
    pub commit: String,
    /// Address of the server that has all files except index.json.
    pub files: String,
}

/// Answer to a request for a file.
pub(super) enum Found<'a> {
    /// The hub sends the file itself.
    Here(&'a str),
    /// The server of the files has it: address, and name of its version.
    Elsewhere(String, String),
    /// Status and code.
    Rejected(StatusCode, &'static str),
}

impl Hub {
    /// Finds the file at `path`, which is encoded; `object` opens a file of the server.
    pub(super) fn find<'a>(&self, path: &'a str, object: impl Fn(&str) -> Option<Object>) -> Found<'a> {
        let address = path.strip_prefix("/datasets/").and_then(|path| path.split_once("/resolve/"));
        let Some((repository, place)) = address else { return Found::Rejected(StatusCode::NOT_FOUND, "") };
        if repository != self.repository {
            return Found::Rejected(StatusCode::UNAUTHORIZED, "RepoNotFound");
        }
        let at = |revision: &str| match place.strip_prefix(revision)?.split_once('/')? {
            ("", file) if !revision.is_empty() => Some(file),
            _ => None,
        };
        let Some(file) = at(&self.revision).or_else(|| at(&self.commit)) else {
            return Found::Rejected(StatusCode::NOT_FOUND, "RevisionNotFound");
        };
        let Some(found) = super::sigv4::decode(file).and_then(|file| object(&file)) else {
            return Found::Rejected(StatusCode::NOT_FOUND, "EntryNotFound");
        };
        if file.ends_with("index.json") {
            return Found::Here(file);
        }
        Found::Elsewhere(format!("{}/{file}?signature=x", self.files), found.etag)
    }
}
