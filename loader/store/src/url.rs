//! Locations of remotes, parsed from their addresses.

use super::address::{Address, DBFS, SFTP, SUPPORTED, has_query, instead_of, redact};
use super::key::{KeyForm, check_key};
use crate::{Error, Result};
use percent_encoding::percent_decode_str;
use std::fmt;
use std::path::PathBuf;
use url::Url;

/// Location of a remote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RemoteLocation {
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
    Library(LibraryRemote),
}

/// Address of a remote that the engine has no transport for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct LibraryRemote(pub(crate) String);

impl fmt::Debug for LibraryRemote {
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

impl RemoteLocation {
    /// Returns true for a whole bucket, container or volume, rather than a folder in one.
    pub(crate) fn is_root(&self) -> bool {
        match self {
            Self::File(_) | Self::Http(_) => false,
            Self::S3(Bucket { prefix, .. })
            | Self::Gcs(Bucket { prefix, .. })
            | Self::Azure(Container { prefix, .. })
            | Self::Hf(Repository { prefix, .. })
            | Self::Oci(NamespacedBucket { prefix, .. }) => prefix.is_empty(),
            Self::Dbfs(path) => volume_len(path) == path.len(),
            // A host, or the root folder of one.
            Self::Library(LibraryRemote(remote)) => {
                let (_, address) = remote.split_once("://").unwrap_or_default();
                address.split_once('/').is_none_or(|(_, path)| path.trim_matches('/').is_empty())
            }
        }
    }

    /// Returns the form of the keys of its objects. A file system of Data Lake has folders.
    pub(crate) fn key_form(&self) -> KeyForm {
        match self {
            Self::S3(_) | Self::Gcs(_) | Self::Azure(Container { is_lake: false, .. }) | Self::Oci(_) => {
                KeyForm::Object
            }
            Self::File(_) => KeyForm::File,
            Self::Http(_) | Self::Azure(_) | Self::Hf(_) | Self::Dbfs(_) | Self::Library(_) => KeyForm::Path,
        }
    }

    /// Splits a path below a bucket, container, volume, server or file system into that and the rest of its path,
    /// which has no slashes at its ends.
    pub(crate) fn split_root(mut self) -> Result<(Self, String)> {
        let key = match &mut self {
            Self::File(path) => {
                let whole = std::path::absolute(std::mem::replace(path, PathBuf::from("/")))
                    .map_err(|e| Error::from_io(e, "a path cannot be made absolute"))?;
                let below = whole.strip_prefix("/").unwrap_or(&whole);
                let key = below.to_str().ok_or_else(|| Error::config("a path must be in UTF-8"))?;
                key.trim_end_matches('/').to_owned()
            }
            Self::Http(url) => {
                let path = percent_decode_str(url.path().trim_matches('/')).decode_utf8();
                let key = path.map_err(|_| Error::config("a path of an address must be in UTF-8"))?.into_owned();
                url.set_path("");
                key
            }
            Self::S3(Bucket { prefix, .. })
            | Self::Gcs(Bucket { prefix, .. })
            | Self::Azure(Container { prefix, .. })
            | Self::Hf(Repository { prefix, .. })
            | Self::Oci(NamespacedBucket { prefix, .. }) => std::mem::take(prefix),
            Self::Dbfs(path) => path.split_off(volume_len(path)).trim_start_matches('/').to_owned(),
            Self::Library(LibraryRemote(remote)) => {
                let (root, key) = split_library_url(remote)?;
                *remote = root;
                key
            }
        };
        Ok((self, key))
    }
}

impl Container {
    /// Returns the same container in the service for blobs: Data Lake's has different requests for writing.
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

/// Remotes that can be opened, for messages.
const FORMS: &str = "s3://, gs://, azure://, azure-dl://, hf://, oci://, dbfs:/Volumes, http(s)://, file:// or a path";

impl RemoteLocation {
    /// Parses `file:///path`, a plain path, `http(s)://host/path`, `s3://bucket/prefix` or any unknown scheme.
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
                    "this is an address without its scheme, such as https:// or sftp://: add it, or pass a folder of \
                     this name as `local`",
                ),
                _ => Ok(Self::File(PathBuf::from(remote))),
            };
        };
        match scheme {
            "file" => match rest.strip_prefix("localhost").unwrap_or(rest) {
                path if path.contains('?') => {
                    reject("a file:// remote cannot have a query: pass a plain path if ? is part of its name")
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
            _ => Ok(Self::Library(LibraryRemote(remote.to_owned()))),
        }
    }
}

/// Parses `name/prefix`.
fn bucket(scheme: &str, address: &str) -> Result<Bucket> {
    let (name, prefix) = address.split_once('/').unwrap_or((address, ""));
    let is_named = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if name.is_empty() || !name.bytes().all(is_named) {
        let why = format!("{scheme}:// is followed by the name of a bucket: letters, digits, '.', '-' and '_'");
        return Err(Error::config(why));
    }
    Ok(Bucket { name: name.to_owned(), prefix: checked_prefix(prefix)? })
}

/// Parses `name@namespace/prefix`.
fn namespaced_bucket(address: &str) -> Result<NamespacedBucket> {
    let (server, prefix) = address.split_once('/').unwrap_or((address, ""));
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
            "the form is dbfs:/Volumes/CATALOG/SCHEMA/VOLUME/folder: further folders of DBFS are not supported",
        )),
    }
}

/// Returns the length of the volume's own path, `/Volumes/catalog/schema/volume`, at the start of `path`.
fn volume_len(path: &str) -> usize {
    path.match_indices('/').nth(4).map_or(path.len(), |(at, _)| at)
}

/// Parses `host/container/prefix` and `container@host/prefix`; for Data Lake also `container/prefix`. A host may be an
/// account.
fn container(scheme: &str, address: &str) -> Result<Container> {
    let is_lake = scheme == "azure-dl";
    let (server, path) = address.split_once('/').unwrap_or((address, ""));
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

/// Revision of a repository if the remote names none.
const REVISION: &str = "main";

/// Parses `datasets/owner/name@revision/prefix`. A revision with slashes is encoded, or a reference such as
/// `refs/pr/1`.
fn repository(address: &str) -> Result<Repository> {
    let is_name = |text: &str| {
        let is_valid = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        !text.is_empty() && !text.starts_with('.') && text.bytes().all(is_valid)
    };
    let bad =
        || Error::config("the form is hf://datasets/OWNER/NAME/folder or hf://datasets/OWNER/NAME@REVISION/folder");
    let mut parts = address.splitn(4, '/');
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
pub fn local_folder(remote: &str) -> Option<PathBuf> {
    match RemoteLocation::parse(remote) {
        Ok(RemoteLocation::File(folder)) => Some(folder),
        _ => None,
    }
}

/// Returns true for a remote of a scheme that the engine has no transport for.
pub fn needs_library(remote: &str) -> bool {
    matches!(RemoteLocation::parse(remote), Ok(RemoteLocation::Library(_)))
}

/// Splits the address of a file that a library serves into the address of its server, with a slash at the end, and its
/// path.
fn split_library_url(url: &str) -> Result<(String, String)> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (server, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = server.rsplit_once('@').map_or(server, |(_, host)| host);
    if has_query(path) || path.contains("::") || host.contains("::") && !host.starts_with('[') {
        return Err(Error::config("the address of a file cannot have a query or a second address: pass only its path"));
    }
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = port.bytes().all(|b| b.is_ascii_digit()) || host.ends_with(']');
    if !is_port || server.contains(['?', '#']) {
        return Err(Error::config("the port must be a number, and / ? # in a password must be written as %2F %3F %23"));
    }
    let key = path.trim_matches('/').to_owned();
    if !key.is_empty() {
        check_key(&key)?;
    }
    Ok((format!("{scheme}://{server}/"), key))
}

/// Returns the error for such a remote where no library has a transport either.
pub(crate) fn no_transport(remote: &str) -> Error {
    match remote.split_once("://") {
        Some((SFTP, _)) => {
            let message = format!("only the Python package opens sftp:// remotes: use it, or one of {FORMS}");
            Error::new(crate::ErrorKind::Unsupported, message)
        }
        _ => Error::config(format!("unknown scheme: use {FORMS}")),
    }
}

/// Splits the address of an object in a bucket or container into that and its key, in which every slash counts.
fn split_bucket(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let server = rest.split('/').next().unwrap_or_default();
    let names = match scheme {
        "s3" | "gs" | "oci" => 1,
        // A query has secrets, and is rejected with the rest of the address.
        "azure" | "wasbs" if rest.contains('?') => return None,
        "azure" | "wasbs" => 2 - usize::from(server.contains('@')),
        _ => return None,
    };
    let end = rest.match_indices('/').nth(names - 1).map_or(rest.len(), |(at, _)| at + 1);
    Some(url.split_at(url.len() - rest.len() + end))
}

/// Splits the address of an object into its root and its key, and returns the part of the address that names the root.
/// The key of a root is empty, and the key of a folder has the slash of its address.
pub(crate) fn split_object(url: &str) -> Result<(RemoteLocation, String, String)> {
    if let Some((name, key)) = split_bucket(url) {
        let root = RemoteLocation::parse(name)?;
        root.key_form().check_prefix(key).map_err(|error| error.with("url", redact(url)))?;
        return Ok((root, format!("{}/", name.trim_end_matches('/')), key.to_owned()));
    }
    let (root, mut key) = RemoteLocation::parse(url)?.split_root().map_err(|error| error.with("url", redact(url)))?;
    let bare = url.trim_end_matches('/');
    let name = match &root {
        RemoteLocation::File(_) => "/".to_owned(),
        RemoteLocation::Http(server) => server.to_string(),
        RemoteLocation::Library(LibraryRemote(server)) => server.clone(),
        _ => bare.strip_suffix(key.as_str()).unwrap_or(bare).trim_end_matches('/').to_owned() + "/",
    };
    if url.ends_with('/') && !key.is_empty() {
        key.push('/');
    }
    Ok((root, name, key))
}

fn unsupported(scheme: &str, remote: &str) -> Result<RemoteLocation> {
    let message = format!("{scheme}:// remotes are not supported: {}", instead_of(scheme).unwrap_or(FORMS));
    Err(Error::new(crate::ErrorKind::Unsupported, message).with("remote", redact(remote)))
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
            ("s3://b/", "s3://b/", ""),
            ("s3://b/a//b", "s3://b/", "a//b"),
            ("s3://b//a/", "s3://b/", "/a/"),
            ("gs://b/a//", "gs://b/", "a//"),
            ("azure://acc/box//a//b", "azure://acc/box/", "/a//b"),
            ("azure://acc/box", "azure://acc/box/", ""),
            ("wasbs://box@acc/a//b", "wasbs://box@acc/", "a//b"),
            ("oci://b@n/a//b", "oci://b@n/", "a//b"),
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
        for url in ["s3://b/a/../c", "s3:///a", "dbfs:/Volumes/c/s/v/a//b", "azure-dl://box@acc/a//b"] {
            assert!(split_object(url).is_err(), "{url}");
        }
    }

    #[test]
    fn the_address_of_a_file_of_a_library_is_a_server_and_a_path() {
        for (url, name, key) in [
            ("sftp://h/a/b c.tar", "sftp://h/", "a/b c.tar"),
            ("sftp://me:secret@h:22/a@b", "sftp://me:secret@h:22/", "a@b"),
            ("sftp://me@[::1]/a/", "sftp://me@[::1]/", "a/"),
            ("ftp://h", "ftp://h/", ""),
            ("memory://box//a#1", "memory://box/", "a#1"),
            ("local:///tmp/a", "local:///", "tmp/a"),
        ] {
            let (root, found_name, found_key) = split_object(url).expect(url);
            assert_eq!((&*found_name, &*found_key), (name, key), "{url}");
            assert_eq!(split_object(name).expect(name).0, root, "{url}");
        }
        for (url, hint) in [
            ("sftp://me:sec#ret@h/a", "%23"),
            ("sftp://me:sec/ret@h/a", "%2F"),
            ("ftp://h/a?user=secret", "cannot have a query"),
            ("zip://a::file:///tmp/b.zip", "or a second address"),
            ("sftp://h/a/../b", "relative path"),
        ] {
            let error = split_object(url).expect_err(url).to_string();
            assert!(error.contains(hint) && !error.contains("ret"), "{url}: {error}");
        }
    }

    #[test]
    fn every_form_of_a_remote_is_parsed() {
        let bucket = |name: &str, prefix: &str| Bucket { name: name.into(), prefix: prefix.into() };
        assert_eq!(RemoteLocation::parse("s3://b/a/c/").expect("s3"), RemoteLocation::S3(bucket("b", "a/c")));
        assert_eq!(RemoteLocation::parse("s3://b").expect("s3"), RemoteLocation::S3(bucket("b", "")));
        assert_eq!(RemoteLocation::parse("gs://b.c_d/a/").expect("gs"), RemoteLocation::Gcs(bucket("b.c_d", "a")));
        for remote in ["dbfs:/Volumes/c/s/v/x", "dbfs:///Volumes/c/s/v/x/"] {
            assert_eq!(RemoteLocation::parse(remote).expect("dbfs"), RemoteLocation::Dbfs("/Volumes/c/s/v/x".into()));
        }
        let address = NamespacedBucket { name: "b".into(), namespace: "n".into(), prefix: "a/c".into() };
        assert_eq!(RemoteLocation::parse("oci://b@n/a/c").expect("oci"), RemoteLocation::Oci(address));
        assert_eq!(RemoteLocation::parse("/data/x").expect("path"), RemoteLocation::File("/data/x".into()));
        assert_eq!(RemoteLocation::parse("data/x").expect("path"), RemoteLocation::File("data/x".into()));
        assert_eq!(RemoteLocation::parse("./s3:/b").expect("path"), RemoteLocation::File("./s3:/b".into()));
        assert_eq!(RemoteLocation::parse("a:b/x").expect("path"), RemoteLocation::File("a:b/x".into()));
        assert_eq!(RemoteLocation::parse("file:///data/x").expect("file"), RemoteLocation::File("/data/x".into()));
        let RemoteLocation::Http(url) = RemoteLocation::parse("https://h:81/a b/").expect("https") else {
            panic!("not http")
        };
        assert_eq!(url.as_str(), "https://h:81/a%20b");
    }

    #[test]
    fn a_container_of_azure_has_the_forms_of_the_reference_and_one_with_both_names() {
        let parse = |remote: &str| match RemoteLocation::parse(remote).expect(remote) {
            RemoteLocation::Azure(container) => container,
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
        let parse = |remote: &str| match RemoteLocation::parse(remote).expect(remote) {
            RemoteLocation::Hf(Repository { name, revision, prefix }) => [name, revision, prefix],
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
            let error = RemoteLocation::parse(remote).expect_err(remote).to_string();
            assert!(error.contains(hint), "{remote}: {error}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_rejected_without_being_shown() {
        for remote in ["http://me:secret@h/x", "https:/me:secret@h", "sftp:/me:secret@h/a", "http://me:secret@h:x/"] {
            let error = RemoteLocation::parse(remote).expect_err("password").to_string();
            assert!(!error.contains("secret") && error.contains("...@h"), "{error}");
        }
        for remote in ["HTTP://me:secret@h/x", "ftp://me:secret@h/x", "git+ssh://me:secret@h/x", "x://me:secret@h/x"] {
            let address = RemoteLocation::parse(remote).expect("an unknown scheme");
            assert_eq!(format!("{address:?}"), format!("Library({})", remote.replace("me:secret", "...")));
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
}
