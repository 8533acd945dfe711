//! Names of remotes: schemes, places, and the secrets in addresses.

use super::key::{check_key, encode_path};
use crate::{Error, Result};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use std::path::PathBuf;
use url::Url;

/// Place of a remote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// A folder of this machine or of a network file system.
    File(PathBuf),
    /// An HTTP server and a folder on it, without a slash at the end.
    Http(Url),
    /// A bucket of S3.
    S3(Bucket),
    /// A bucket of Google Cloud Storage.
    Gcs(Bucket),
    /// A container of Azure.
    Azure(Container),
    /// A data set on the Hugging Face hub.
    Hf(Repository),
    /// A bucket of Oracle's object storage.
    Oci(NamespacedBucket),
    /// A folder of a volume of Databricks: its path, which begins with `/Volumes/`.
    Dbfs(String),
    /// A remote of a scheme that the engine has no transport for.
    Outside(OutsideRemote),
}

/// Address of a remote that the engine has no transport for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct OutsideRemote(pub(crate) String);

impl fmt::Debug for OutsideRemote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact(&self.0))
    }
}

/// Name of a bucket, and a prefix without slashes at its ends (may be empty).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bucket {
    pub(crate) name: String,
    pub(crate) prefix: String,
}

/// Name of a container of Azure, and a prefix without slashes at its ends (may be empty).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Container {
    /// Storage account, or the host of its service; `None` if the remote does not name it.
    pub(crate) host: Option<String>,
    pub(crate) name: String,
    pub(crate) prefix: String,
    /// It is a file system of Data Lake.
    pub(crate) is_lake: bool,
}

impl Place {
    /// Returns true for a whole bucket, container or volume, rather than a folder in one.
    pub(crate) fn is_root(&self) -> bool {
        match self {
            Self::File(_) | Self::Http(_) => false,
            Self::S3(bucket) | Self::Gcs(bucket) => bucket.prefix.is_empty(),
            Self::Azure(container) => container.prefix.is_empty(),
            Self::Hf(repository) => repository.prefix.is_empty(),
            Self::Oci(bucket) => bucket.prefix.is_empty(),
            // "/Volumes/CATALOG/SCHEMA/VOLUME"
            Self::Dbfs(path) => path.split('/').count() <= 5,
            // A host, or the root folder of one.
            Self::Outside(OutsideRemote(remote)) => {
                let (_, place) = remote.split_once("://").unwrap_or_default();
                place.split_once('/').is_none_or(|(_, path)| path.trim_matches('/').is_empty())
            }
        }
    }
}

impl Place {
    /// Splits a place below a bucket, container, volume, server or file system into that and the rest of its path, which
    /// has no slashes at its ends.
    pub(crate) fn split_root(self) -> Result<(Self, String)> {
        Ok(match self {
            Self::File(path) => {
                let path =
                    std::path::absolute(&path).map_err(|e| Error::from_io(e, "a path cannot be made absolute"))?;
                let below = path.strip_prefix("/").unwrap_or(&path);
                let key = below.to_str().ok_or_else(|| Error::config("a path must be in UTF-8"))?;
                (Self::File(PathBuf::from("/")), key.trim_end_matches('/').to_owned())
            }
            Self::Http(mut url) => {
                let path = percent_decode_str(url.path().trim_matches('/')).decode_utf8();
                let key = path.map_err(|_| Error::config("a path of an address must be in UTF-8"))?.into_owned();
                url.set_path("");
                (Self::Http(url), key)
            }
            Self::S3(mut bucket) => {
                let key = std::mem::take(&mut bucket.prefix);
                (Self::S3(bucket), key)
            }
            Self::Gcs(mut bucket) => {
                let key = std::mem::take(&mut bucket.prefix);
                (Self::Gcs(bucket), key)
            }
            Self::Azure(mut container) => {
                let key = std::mem::take(&mut container.prefix);
                (Self::Azure(container), key)
            }
            Self::Hf(mut repository) => {
                let key = std::mem::take(&mut repository.prefix);
                (Self::Hf(repository), key)
            }
            Self::Oci(mut bucket) => {
                let key = std::mem::take(&mut bucket.prefix);
                (Self::Oci(bucket), key)
            }
            Self::Dbfs(path) => {
                // "/Volumes/CATALOG/SCHEMA/VOLUME"
                let end = path.match_indices('/').nth(4).map_or(path.len(), |(at, _)| at);
                let key = path[end..].trim_start_matches('/').to_owned();
                (Self::Dbfs(path[..end].to_owned()), key)
            }
            Self::Outside(OutsideRemote(remote)) => return Err(no_transport(&remote)),
        })
    }
}

impl Container {
    /// Returns the same container in the service for blobs: Data Lake's has other requests for writing.
    pub(crate) fn of_blobs(self) -> Self {
        let host = self.host.map(|host| host.replacen(".dfs.", ".blob.", 1));
        Self { host, is_lake: false, ..self }
    }
}

/// Repository of a data set, and a folder in it without slashes at its ends (may be empty).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Repository {
    /// Owner and name, with a slash between them.
    pub(crate) name: String,
    /// Branch, tag, commit or reference.
    pub(crate) revision: String,
    pub(crate) prefix: String,
}

/// Name of a bucket and of its namespace, and a prefix without slashes at its ends (may be empty).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NamespacedBucket {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) prefix: String,
}

/// Schemes of the engine's own transports, and the one outside that is used most.
const SUPPORTED: [&str; 12] =
    ["file", "http", "https", "s3", "gs", "azure", "azure-dl", "wasbs", "hf", "oci", DBFS, SFTP];

/// Scheme whose remotes have no server, and so one slash.
const DBFS: &str = "dbfs";

const SFTP: &str = "sftp";

/// Schemes without any transport, and what to use in their place.
const UNSUPPORTED: [(&str, &str); 2] = [
    (
        "r2",
        "R2 has the protocol of S3: use s3://BUCKET/folder, with AWS_ENDPOINT_URL=https://ACCOUNT.r2.cloudflarestorage.com, \
         AWS_REGION=auto and the keys of an R2 token in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    ("alipan", "copy the data set to a folder, or to a supported store"),
];

/// Remotes that can be opened, for messages.
const FORMS: &str = "s3://, gs://, azure://, azure-dl://, hf://, oci://, dbfs:/Volumes, http(s)://, file:// or a path";

impl Place {
    /// Parses `file:///path`, a plain path, `http(s)://host/path`, `s3://bucket/prefix` or any other scheme.
    pub(crate) fn parse(remote: &str) -> Result<Self> {
        let reject = |why: &str| Err(Error::config(why.to_owned()).with("remote", redact(remote)));
        if remote.is_empty() {
            return reject("the remote is empty: give a folder, an http(s):// address or s3://bucket/prefix");
        }
        if remote.starts_with("//") && !Address::of(remote).user.is_empty() {
            return reject("an address has a scheme before //, such as http:, and a path begins with one slash");
        }
        if let Some((DBFS, path)) = remote.split_once(':') {
            return volume(path).map(Self::Dbfs).map_err(|error| error.with("remote", redact(remote)));
        }
        let Some((scheme, rest)) = remote.split_once("://") else {
            let address = Address::of(remote);
            let is_address = !address.user.is_empty() || address.tail.starts_with('?');
            return match remote.split_once(':') {
                Some((scheme, rest)) if SUPPORTED.contains(&scheme) => {
                    let slashes = if scheme == "file" { ":///" } else { "://" };
                    let meant = format!("{scheme}{slashes}{}", rest.trim_start_matches('/'));
                    let (meant, path) = (redact(&meant), redact(remote));
                    reject(&format!(
                        "an address has two slashes after {scheme}:, so this may mean {meant}, and a path ./{path}"
                    ))
                }
                Some((scheme, _)) if instead_of(scheme).is_some() => unsupported(scheme, remote),
                // As a path it would be in every message about its files.
                _ if is_address => reject(
                    "this is an address without its scheme, such as https:// or sftp://: add it, or pass a folder of this \
                     name as `local`",
                ),
                _ => Ok(Self::File(PathBuf::from(remote))),
            };
        };
        match scheme {
            "file" => match rest.strip_prefix("localhost").unwrap_or(rest) {
                path if path.contains('?') => {
                    reject("a file:// remote cannot have a query: pass the path alone if ? is part of its name")
                }
                path if path.starts_with('/') => Ok(Self::File(PathBuf::from(path))),
                _ => reject("a file:// remote needs an absolute path, with three slashes: file:///data/train"),
            },
            "http" | "https" => {
                let mut url = Url::parse(remote).map_err(|e| {
                    Error::config("the remote is not a valid address").caused_by(e).with("remote", redact(remote))
                })?;
                if !url.username().is_empty() || url.password().is_some() {
                    return reject("user names and passwords in a remote's address are not supported");
                }
                if url.query().is_some() || url.fragment().is_some() {
                    return reject("a remote is a folder: its address cannot have a query or a fragment");
                }
                let path = url.path().trim_end_matches('/').to_owned();
                url.set_path(&path);
                Ok(Self::Http(url))
            }
            "s3" => bucket(scheme, rest).map(Self::S3).map_err(|error| error.with("remote", redact(remote))),
            "gs" => bucket(scheme, rest).map(Self::Gcs).map_err(|error| error.with("remote", redact(remote))),
            "wasbs" if rest.contains('?') => {
                reject("a wasbs:// remote cannot have a query: put a SAS token into AZURE_STORAGE_SAS_TOKEN")
            }
            "azure" | "azure-dl" | "wasbs" => {
                container(scheme, rest).map(Self::Azure).map_err(|error| error.with("remote", redact(remote)))
            }
            "hf" => repository(rest).map(Self::Hf).map_err(|error| error.with("remote", redact(remote))),
            "oci" => namespaced_bucket(rest).map(Self::Oci).map_err(|error| error.with("remote", redact(remote))),
            _ if instead_of(scheme).is_some() => unsupported(scheme, remote),
            _ => Ok(Self::Outside(OutsideRemote(remote.to_owned()))),
        }
    }
}

/// Parses `name/prefix`.
fn bucket(scheme: &str, place: &str) -> Result<Bucket> {
    let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
    let is_named = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if name.is_empty() || !name.bytes().all(is_named) {
        let why = format!("{scheme}:// is followed by the name of a bucket: letters, digits, '.', '-' and '_'");
        return Err(Error::config(why));
    }
    Ok(Bucket { name: name.to_owned(), prefix: checked_prefix(prefix)? })
}

/// Parses `name@namespace/prefix`.
fn namespaced_bucket(place: &str) -> Result<NamespacedBucket> {
    let (server, prefix) = place.split_once('/').unwrap_or((place, ""));
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
    };
    let parts = server.split_once('@').filter(|(name, namespace)| is_name(name) && is_name(namespace));
    let (name, namespace) = parts.ok_or_else(|| {
        Error::config("the form is oci://BUCKET@NAMESPACE/folder; `oci os ns get` prints the namespace")
    })?;
    Ok(NamespacedBucket { name: name.to_owned(), namespace: namespace.to_owned(), prefix: checked_prefix(prefix)? })
}

/// Parses `/Volumes/catalog/schema/volume/prefix`.
fn volume(path: &str) -> Result<String> {
    let path = checked_prefix(path)?;
    match path.split_once('/') {
        Some(("Volumes", _)) => Ok(format!("/{path}")),
        _ => Err(Error::config(
            "the form is dbfs:/Volumes/CATALOG/SCHEMA/VOLUME/folder: other folders of DBFS are not supported",
        )),
    }
}

/// Parses `host/container/prefix` and `container@host/prefix`; for Data Lake also `container/prefix`. A host may be an
/// account.
fn container(scheme: &str, place: &str) -> Result<Container> {
    let is_lake = scheme == "azure-dl";
    let (server, path) = place.split_once('/').unwrap_or((place, ""));
    let (host, name, prefix) = match server.split_once('@') {
        Some((name, host)) => (Some(host), name, path),
        None if is_lake && !server.contains('.') => (None, server, path),
        None => {
            let (name, prefix) = path.split_once('/').unwrap_or((path, ""));
            (Some(server), name, prefix)
        }
    };
    let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'$');
    let is_host =
        |host: &str| !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-".contains(&b));
    if name.is_empty() || !name.bytes().all(is_name) || !host.is_none_or(is_host) {
        let form = if is_lake { "CONTAINER/folder" } else { "ACCOUNT.blob.core.windows.net/CONTAINER/folder" };
        let why = format!("the form is {scheme}://{form}, or {scheme}://CONTAINER@ACCOUNT/folder");
        return Err(Error::config(why));
    }
    let host = host.map(str::to_owned);
    Ok(Container { host, name: name.to_owned(), prefix: checked_prefix(prefix)?, is_lake })
}

/// Revision of a repository whose remote names none.
const REVISION: &str = "main";

/// Parses `datasets/owner/name@revision/prefix`. A revision with slashes is encoded, or a reference such as `refs/pr/1`.
fn repository(place: &str) -> Result<Repository> {
    let is_name = |text: &str| {
        let is_valid = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        !text.is_empty() && !text.starts_with('.') && text.bytes().all(is_valid)
    };
    let bad =
        || Error::config("the form is hf://datasets/OWNER/NAME/folder or hf://datasets/OWNER/NAME@REVISION/folder");
    let mut parts = place.splitn(4, '/');
    let mut part = || parts.next().unwrap_or_default();
    let (kind, owner, name, mut path) = (part(), part(), part(), part());
    let (name, revision) = name.split_once('@').map_or((name, None), |(name, revision)| (name, Some(revision)));
    if kind != "datasets" || !is_name(owner) || !is_name(name) {
        return Err(bad());
    }
    let mut revision = match revision {
        None => REVISION.to_owned(),
        Some(revision) => percent_decode_str(revision).decode_utf8().map_err(|_| bad())?.into_owned(),
    };
    if revision == "refs"
        && let Some((kind, rest)) = path.split_once('/')
    {
        let (number, rest) = rest.split_once('/').unwrap_or((rest, ""));
        revision = format!("refs/{kind}/{number}");
        path = rest;
    }
    check_key(&revision).map_err(|_| bad())?;
    Ok(Repository { name: format!("{owner}/{name}"), revision, prefix: checked_prefix(path)? })
}

/// Returns the path of a folder without slashes at its ends.
fn checked_prefix(path: &str) -> Result<String> {
    let prefix = path.trim_matches('/');
    if !prefix.is_empty() {
        check_key(prefix)?;
    }
    Ok(prefix.to_owned())
}

/// Returns the folder that `remote` names; `None` for servers and for names that cannot work.
pub(crate) fn local_folder(remote: &str) -> Option<PathBuf> {
    match Place::parse(remote) {
        Ok(Place::File(folder)) => Some(folder),
        _ => None,
    }
}

/// Returns true for a remote of a scheme that the engine has no transport for.
pub fn is_outside(remote: &str) -> bool {
    matches!(Place::parse(remote), Ok(Place::Outside(_)))
}

/// Returns the error for such a remote where nothing outside of the engine has a transport either.
pub(crate) fn no_transport(remote: &str) -> Error {
    match remote.split_once("://") {
        Some((SFTP, _)) => {
            let message = format!("sftp:// remotes are opened by the Python package alone: use it, or one of {FORMS}");
            Error::new(crate::ErrorKind::Unsupported, message)
        }
        _ => Error::config(format!("unknown scheme: use {FORMS}")),
    }
}

fn instead_of(scheme: &str) -> Option<&'static str> {
    UNSUPPORTED.iter().find(|(known, _)| *known == scheme).map(|(_, instead)| *instead)
}

/// Splits the address of an object into its root and its key, and returns the part of the address that names the root. The
/// key of a root is empty, and that of a folder has the slash of its address.
pub(crate) fn split_object(url: &str) -> Result<(Place, String, String)> {
    let (root, mut key) = Place::parse(url)?.split_root().map_err(|error| error.with("url", redact(url)))?;
    let bare = url.trim_end_matches('/');
    let name = match &root {
        Place::File(_) => "/".to_owned(),
        Place::Http(server) => server.to_string(),
        _ => bare.strip_suffix(key.as_str()).unwrap_or(bare).trim_end_matches('/').to_owned() + "/",
    };
    if url.ends_with('/') && !key.is_empty() {
        key.push('/');
    }
    Ok((root, name, key))
}

fn unsupported(scheme: &str, remote: &str) -> Result<Place> {
    let message = format!("{scheme}:// remotes are not supported: {}", instead_of(scheme).unwrap_or(FORMS));
    Err(Error::new(crate::ErrorKind::Unsupported, message).with("remote", redact(remote)))
}

/// Returns true if `name` is an address, or meant as one, rather than a path: it starts with a scheme of at least two
/// letters, and a slash; or it has a user, as scp's `user:password@host:path`.
pub fn is_url(name: &str) -> bool {
    has_scheme(name) || !Address::of(name).user.is_empty()
}

fn has_scheme(name: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.len() > 1
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    name.split_once(":/").is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// Schemes in which `@` is part of a place's name. The part before it is a secret only with a colon, which no name has.
const WITHOUT_USERS: [&str; 4] = ["azure", "azure-dl", "oci", "wasbs"];

/// Returns a remote for messages and logs, without the user name, password, parameters, query and fragment of its address.
pub fn redact(remote: &str) -> Cow<'_, str> {
    let address = Address::of(remote);
    match address.user {
        "" => remote[..remote.len() - address.tail.len()].into(),
        _ => format!("{}...{}", address.start, address.place).into(),
    }
}

/// Shortest part of a secret that is cut wherever it is. Shorter ones are in most texts by chance.
const SECRET_BYTES_MIN: usize = 4;

/// Returns a text of another library about `remote`, without the secrets of its address. Such a text may have only a part
/// of them, because libraries split and encode addresses by different rules.
pub fn redact_in<'a>(text: &'a str, remote: &str) -> Cow<'a, str> {
    let Address { user, tail, .. } = Address::of(remote);
    if user.is_empty() && tail.is_empty() {
        return text.into();
    }
    let mut text = text.replace(remote, &redact(remote));
    if !user.is_empty() {
        text = text.replace(&format!("{user}@"), "...@");
    }
    let parts = [user, tail].into_iter().flat_map(|secret| {
        let coarse = secret.split(['/', '?', '#', '&', ';']);
        let fine = secret.split(['/', '?', '#', '&', ';', ':', '=', '@']);
        std::iter::once(secret).chain(coarse).chain(fine).map(str::to_owned)
    });
    let with_encoded = |part: String| {
        let decoded = percent_decode_str(&part).decode_utf8_lossy().into_owned();
        [encode_path(&part), decoded, part]
    };
    let long = parts.flat_map(with_encoded).filter(|part| part.len() >= SECRET_BYTES_MIN);
    let mut secrets: Vec<String> = long.collect();
    // A secret goes before its parts.
    secrets.sort_by_key(|secret| Reverse(secret.len()));
    secrets.iter().fold(text, |text, secret| text.replace(secret, "...")).into()
}

/// Parts of a remote, in their order. A path without secrets is all `start`.
#[derive(Default)]
struct Address<'a> {
    /// Scheme, colon and slashes.
    start: &'a str,
    /// User name and password; empty without them.
    user: &'a str,
    /// Server and path; after a user it begins with `@`.
    place: &'a str,
    /// Parameters of the path, query and fragment.
    tail: &'a str,
}

/// Returns the position of the first `name=` after one of `marks`, which belongs to it.
fn parameters_at(text: &str, marks: &[char]) -> Option<usize> {
    let is_parameter = |after: &str| {
        let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')));
        end.is_some_and(|end| end > 0 && after[end..].starts_with('='))
    };
    text.match_indices(marks).map(|(at, _)| at).find(|at| is_parameter(&text[at + 1..]))
}

/// Splits `user:password@host:path`, as scp has it, before the last `@`.
fn scp_user(name: &str) -> Option<(&str, &str)> {
    let (user, host) = name.split_at(name.rfind('@')?);
    let is_user = user.split_once(':').is_some_and(|(user, _)| !user.is_empty() && !user.contains('/'));
    let is_host = host.split(['/', ':']).next().is_some_and(|name| host[name.len()..].starts_with(':'));
    (is_user && is_host).then_some((user, host))
}

impl<'a> Address<'a> {
    fn of(remote: &'a str) -> Self {
        // Without a scheme only a user or a query makes it an address.
        let (place, tail) = remote.split_at(parameters_at(remote, &['?']).unwrap_or(remote.len()));
        let path = match scp_user(place) {
            Some((user, place)) => Self { start: "", user, place, tail },
            None => Self { start: place, tail, ..Self::default() },
        };
        let is_bare = remote.starts_with("//");
        let (scheme, rest) = match remote.split_once(':') {
            _ if is_bare => ("", remote),
            Some(parts) => parts,
            None => return path,
        };
        let is_known = SUPPORTED.contains(&scheme) || instead_of(scheme).is_some();
        // The part before `://` need not be a known scheme.
        if !(is_bare || is_known || rest.starts_with("//") || has_scheme(remote)) {
            return path;
        }
        let (start, rest) = remote.split_at(remote.len() - rest.trim_start_matches('/').len());
        // A query may be encoded by mistake, or its start may be missing.
        let ends = ["?", "#", "%3F", "%3f", "%23"].iter().filter_map(|end| rest.find(end));
        let tail_at = ends.chain(parameters_at(rest, &['&', ';'])).min().unwrap_or(rest.len());
        let (place, tail) = rest.split_at(tail_at);
        // A password may contain any of `/@?#`, unencoded by mistake: it ends at the last `@`.
        let server = place.split('/').next().unwrap_or_default();
        let has_user = if WITHOUT_USERS.contains(&scheme) {
            server.split('@').next().is_some_and(|name| name.contains(':'))
        } else {
            server.contains(['@', ':'])
        };
        match place.rfind('@') {
            _ if has_user && tail.contains('@') => Self { start, user: rest, ..Self::default() },
            Some(at) if has_user => Self { start, user: &place[..at], place: &place[at..], tail },
            _ if is_bare => path,
            _ => Self { start, user: "", place, tail },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_an_object_is_a_root_and_a_key() {
        for (url, name, key) in [
            ("s3://b/a/b c.tar", "s3://b/", "a/b c.tar"),
            ("s3://b", "s3://b/", ""),
            ("s3://b/a/", "s3://b/", "a/"),
            ("gs://b/b", "gs://b/", "b"),
            ("azure://acc.blob.core.windows.net/box/a", "azure://acc.blob.core.windows.net/box/", "a"),
            ("azure-dl://box@acc/a/b", "azure-dl://box@acc/", "a/b"),
            ("oci://b@n/a/b", "oci://b@n/", "a/b"),
            ("hf://datasets/o/n@v1/a/b", "hf://datasets/o/n@v1/", "a/b"),
            ("dbfs:/Volumes/c/s/v/a/b", "dbfs:/Volumes/c/s/v/", "a/b"),
            ("https://h:8/a/b%20c", "https://h:8/", "a/b c"),
            ("file:///tmp/a/b", "/", "tmp/a/b"),
            ("/tmp/a/", "/", "tmp/a/"),
        ] {
            let (root, found_name, found_key) = split_object(url).expect(url);
            assert_eq!((&*found_name, &*found_key), (name, key), "{url}");
            assert_eq!(split_object(name).expect(name).0, root, "{url}");
        }
        assert!(split_object("s3://b/a/../c").is_err());
        assert!(split_object("sftp://h/a").is_err());
    }

    #[test]
    fn every_form_of_a_remote_is_parsed() {
        let bucket = |name: &str, prefix: &str| Bucket { name: name.into(), prefix: prefix.into() };
        assert_eq!(Place::parse("s3://b/a/c/").expect("s3"), Place::S3(bucket("b", "a/c")));
        assert_eq!(Place::parse("s3://b").expect("s3"), Place::S3(bucket("b", "")));
        assert_eq!(Place::parse("gs://b.c_d/a/").expect("gs"), Place::Gcs(bucket("b.c_d", "a")));
        for remote in ["dbfs:/Volumes/c/s/v/x", "dbfs:///Volumes/c/s/v/x/"] {
            assert_eq!(Place::parse(remote).expect("dbfs"), Place::Dbfs("/Volumes/c/s/v/x".into()));
        }
        let place = NamespacedBucket { name: "b".into(), namespace: "n".into(), prefix: "a/c".into() };
        assert_eq!(Place::parse("oci://b@n/a/c").expect("oci"), Place::Oci(place));
        assert_eq!(Place::parse("/data/x").expect("path"), Place::File("/data/x".into()));
        assert_eq!(Place::parse("data/x").expect("path"), Place::File("data/x".into()));
        assert_eq!(Place::parse("./s3:/b").expect("path"), Place::File("./s3:/b".into()));
        assert_eq!(Place::parse("a:b/x").expect("path"), Place::File("a:b/x".into()));
        assert_eq!(Place::parse("file:///data/x").expect("file"), Place::File("/data/x".into()));
        let Place::Http(url) = Place::parse("https://h:81/a b/").expect("https") else { panic!("not http") };
        assert_eq!(url.as_str(), "https://h:81/a%20b");
    }

    #[test]
    fn a_container_of_azure_has_the_forms_of_the_reference_and_one_with_both_names() {
        let parse = |remote: &str| match Place::parse(remote).expect(remote) {
            Place::Azure(container) => container,
            other => panic!("{other:?}"),
        };
        let container = |host: Option<&str>, name: &str, prefix: &str, is_lake| Container {
            host: host.map(str::to_owned),
            name: name.into(),
            prefix: prefix.into(),
            is_lake,
        };
        let host = "store.blob.core.windows.net";
        assert_eq!(parse(&format!("azure://{host}/c/a/b/")), container(Some(host), "c", "a/b", false));
        assert_eq!(parse("azure://store/c"), container(Some("store"), "c", "", false));
        assert_eq!(parse("azure://c@store/a"), container(Some("store"), "c", "a", false));
        assert_eq!(parse(&format!("wasbs://c@{host}/a")), container(Some(host), "c", "a", false));
        assert_eq!(parse("azure-dl://c/a"), container(None, "c", "a", true));
        let host = "store.dfs.core.windows.net";
        assert_eq!(parse(&format!("azure-dl://{host}/c/a")), container(Some(host), "c", "a", true));
        assert_eq!(parse(&format!("azure-dl://c@{host}/a")), container(Some(host), "c", "a", true));
    }

    #[test]
    fn a_data_set_of_the_hub_has_a_revision() {
        let parse = |remote: &str| match Place::parse(remote).expect(remote) {
            Place::Hf(Repository { name, revision, prefix }) => [name, revision, prefix],
            other => panic!("{other:?}"),
        };
        assert_eq!(parse("hf://datasets/me/set"), ["me/set", "main", ""]);
        assert_eq!(parse("hf://datasets/me/a.b-c/x/y/"), ["me/a.b-c", "main", "x/y"]);
        assert_eq!(parse("hf://datasets/me/set@v1.0/x"), ["me/set", "v1.0", "x"]);
        assert_eq!(parse("hf://datasets/me/set@refs%2Fpr%2F1/x"), ["me/set", "refs/pr/1", "x"]);
        assert_eq!(parse("hf://datasets/me/set@refs/convert/parquet/x"), ["me/set", "refs/convert/parquet", "x"]);
        assert_eq!(parse("hf://datasets/me/set@refs/pr/1"), ["me/set", "refs/pr/1", ""]);
    }

    #[test]
    fn an_invalid_remote_is_an_error_that_names_the_fix() {
        for (remote, hint) in [
            ("", "give a folder"),
            ("file://data/x", "three slashes"),
            ("file:///data/x?y=1", "cannot have a query"),
            ("//me:y@h/x", "a scheme before //"),
            ("me:y@h:/x", "without its scheme, such as https:// or sftp://"),
            ("bucket/x?token=y", "pass a folder of this name as `local`"),
            ("sftp:/h/x", "may mean sftp://h/x"),
            ("wasbs://box", "the form is wasbs://ACCOUNT.blob.core.windows.net/CONTAINER/folder"),
            ("wasbs://box@account/x?sig=y", "put a SAS token into AZURE_STORAGE_SAS_TOKEN"),
            ("alipan://x", "copy the data set to a folder"),
            ("r2://b/x", "use s3://BUCKET/folder, with AWS_ENDPOINT_URL"),
            ("oci://b/x", "the form is oci://BUCKET@NAMESPACE/folder"),
            ("oci://me:y@n/x", "the form is oci://BUCKET@NAMESPACE/folder"),
            ("s3:///x", "name of a bucket"),
            ("gs://b@c/x", "name of a bucket"),
            ("azure://store", "the form is azure://ACCOUNT.blob.core.windows.net/CONTAINER/folder"),
            ("azure-dl:///x", "the form is azure-dl://CONTAINER/folder"),
            ("azure://me:y@h/x", "the form is"),
            ("s3://b/a/../c", "relative path"),
            ("http://h/x?y=1", "query"),
            ("http://", "not a valid address"),
            ("s3:/b/x", "two slashes after s3:, so this may mean s3://b/x, and a path ./s3:/b/x"),
            ("s3:b/x", "may mean s3://b/x"),
            ("https:/h/x", "may mean https://h/x"),
            ("file:/data/x", "may mean file:///data/x"),
            ("gs:b/x", "may mean gs://b/x"),
            ("r2:b/x", "r2:// remotes are not supported: R2 has the protocol of S3"),
            ("oci:b/x", "may mean oci://b/x"),
            ("hf://me/set", "the form is hf://datasets/OWNER/NAME/folder"),
            ("hf://datasets/set", "the form is hf://datasets/OWNER/NAME/folder"),
            ("hf://datasets/me/set@../x", "the form is hf://datasets/OWNER/NAME/folder"),
            ("dbfs:/mnt/x", "the form is dbfs:/Volumes/CATALOG"),
            ("dbfs:/Volumes", "the form is dbfs:/Volumes/CATALOG"),
            ("dbfs:/Volumes/../x", "relative path"),
        ] {
            let error = Place::parse(remote).expect_err(remote).to_string();
            assert!(error.contains(hint), "{remote}: {error}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_rejected_without_being_shown() {
        for remote in ["http://me:secret@h/x", "https:/me:secret@h", "sftp:/me:secret@h/a", "http://me:secret@h:x/"] {
            let error = Place::parse(remote).expect_err("password").to_string();
            assert!(!error.contains("secret") && error.contains("...@h"), "{error}");
        }
        for remote in ["HTTP://me:secret@h/x", "ftp://me:secret@h/x", "git+ssh://me:secret@h/x", "x://me:secret@h/x"] {
            let place = Place::parse(remote).expect("another scheme");
            assert_eq!(format!("{place:?}"), format!("Outside({})", remote.replace("me:secret", "...")));
        }
        for name in [
            "https://h/a@b",
            "oci://bucket@namespace/x",
            "data:x@y",
            "/data/a@b",
            "/data/a?b#c",
            "s3://b/x",
            "//data/a@b?c",
            "//data:a/b",
            "http://h/a;b/c&d",
            "git@h:x",
            "a/b:c@d:e",
            "/data/a=b?c",
            "./a:b@c",
        ] {
            assert_eq!(redact(name), name);
        }
    }

    #[test]
    fn secrets_in_an_address_are_not_shown() {
        for (remote, shown) in [
            ("https://h/x?X-Amz-Signature=secret", "https://h/x"),
            ("https://h/x?sig=a@secret", "https://h/x"),
            ("https://h/x#secret", "https://h/x"),
            ("s3://bucket/x?versionId=secret", "s3://bucket/x"),
            ("wasbs://box@account/x?sig=secret", "wasbs://box@account/x"),
            ("oci://me:secret@namespace/x", "oci://...@namespace/x"),
            ("http://me:sec/ret@h/x", "http://...@h/x"),
            ("http://me:sec@ret@h/x", "http://...@h/x"),
            ("sftp://me:secret@h/a@b", "sftp://...@b"),
            ("http://me@sec/ret@h/x", "http://...@h/x"),
            ("http://me:sec?ret@h/x", "http://..."),
            ("http://me:sec#ret@h/x?y", "http://..."),
            ("https:me:sec/ret@h", "https:...@h"),
            ("http://h:81/x?y=secret", "http://h:81/x"),
            ("http://h/x%3Fsig=secret", "http://h/x"),
            ("http://h/x%3fsig=secret#y", "http://h/x"),
            ("//me:secret@h/x", "//...@h/x"),
            ("//me:sec/ret@h/x", "//...@h/x"),
            ("//secret@h/x?y", "//...@h/x"),
            ("http://h/x;jsessionid=secret/y", "http://h/x"),
            ("http://h/x&sig=sec/ret", "http://h/x"),
            ("s3://bucket/x;token=secret?y", "s3://bucket/x"),
            ("me:secret@h:/x", "...@h:/x"),
            ("me:sec/ret@h:x", "...@h:x"),
            ("me:secret@h:/x?token=secret", "...@h:/x"),
            ("/data/x?token=secret", "/data/x"),
            ("bucket/x?X-Amz-Signature=secret", "bucket/x"),
        ] {
            assert_eq!(redact(remote), shown);
        }
    }

    #[test]
    fn secrets_of_an_address_are_cut_from_the_text_of_another_library() {
        for (remote, text, shown) in [
            ("s3://AKIA:secret@b/x", "no bucket AKIA:secret@b", "no bucket ...@b"),
            ("s3://AKIA:secret@b/x", "no bucket AKIA%3Asecret%40b", "no bucket ...%40b"),
            ("s3://AKIA:sec%2Fret@b/x", "wrong password sec/ret", "wrong password ..."),
            ("sftp://me:secret@h/x", "cannot open sftp://me:secret@h/x", "cannot open sftp://...@h/x"),
            ("sftp://me:secret@h/x", "'secret' is wrong for me", "'...' is wrong for me"),
            ("http://h/x?sig=secret", "no key x?sig=secret", "no key x..."),
            ("http://h/x?sig=secret", "no parameter secret", "no parameter ..."),
            ("http://h/x;jsessionid=secret", "no key x;jsessionid=secret", "no key x..."),
            ("me:secret@h:/x", "'secret' is wrong", "'...' is wrong"),
            ("http://me@h/x", "me@h is unknown", "...@h is unknown"),
            ("http://h/x", "no key x at http://h/x", "no key x at http://h/x"),
            ("/data/a?b#c", "no /data/a?b#c", "no /data/a?b#c"),
        ] {
            assert_eq!(redact_in(text, remote), shown);
        }
    }

    /// The same names are in Python's `test_reader_writer_and_loader_agree_on_the_form_of_a_url`.
    #[test]
    fn a_name_with_a_scheme_or_a_user_is_an_address() {
        for name in ["s3://b/x", "s3:/b/x", "azure-dl://c/x", "HTTP://h", "file:///x", "me:y@h:/x", "//me:y@h/x"] {
            assert!(is_url(name), "{name}");
        }
        for name in ["data", "/data/x://y", "C:/data", "a b:/c", "://x", "data:x", "9p:/x", "git@h:x", "data/a?b=c"] {
            assert!(!is_url(name), "{name}");
        }
    }
}
