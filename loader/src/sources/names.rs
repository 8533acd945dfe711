//! Lists of files as WebDataset's users write them: `s3://b/train-{000..146}.tar::pipe:aws s3 cp s3://b/extra.tar -`.
//!
//! * `::` separates lists, and braces expand as in Python's package `braceexpand`.
//! * `pipe:` and a usual command is the address that the command reads. No command is run.
//! * `*`, `?` and `**` are wildcards: the names are known after the folder is listed.
//! * All files of a list have one kind, and are below one folder of one store, which is opened like any remote.

use super::files::FILE;
use super::kind::{FileKind, check_name};
use super::kinds::{claiming, is_hinted, kind_of};
use super::location::{Location, is_web, without_query};
use super::tars::TAR;
use super::wildcards::{Pattern, is_pattern};
use super::{braces, pipes};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::store::redact;
use std::collections::HashSet;

pub use super::braces::NAMES_MAX;

/// Most names with a wildcard in a list, since each is compared with every file of the folder.
pub(super) const PATTERNS_MAX: usize = 1000;

/// Files of a data set, in the order of their list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardNames {
    /// Kind of all files.
    pub kind: &'static FileKind,
    /// Address of the longest folder that all files have in common: a remote without a slash at its end (but for `/`).
    pub root: String,
    /// Paths of the files below `root`.
    pub names: Names,
}

/// Paths of files below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// All of them, each once.
    Listed(Vec<String>),
    /// Paths, at least one of them with a wildcard. [`matching`] makes the list, from all files below the folder.
    Patterns(Vec<String>),
}

impl Names {
    /// Names and patterns as the list has them.
    pub fn listed(&self) -> &[String] {
        let (Self::Listed(names) | Self::Patterns(names)) = self;
        names
    }

    /// Returns all files of the list. `files` returns the paths of all files below the folder, and is called for
    /// patterns alone.
    ///
    /// # Errors
    ///
    /// As [`matching`]; the errors of `files`.
    pub fn found(self, files: impl FnOnce() -> Result<Vec<String>>) -> Result<Vec<String>> {
        match self {
            Self::Listed(names) => Ok(names),
            Self::Patterns(patterns) => matching(&patterns, &files()?),
        }
    }
}

/// Returns the files of a `remote`; `None` if it is not a list of files but the folder of a data set.
///
/// A list has an entry with a name that ends like a [`FileKind`]'s, or one that starts with `pipe:`, which reads a tar.
/// A folder with a name that ends in `.tar` needs a slash at its end to be one.
///
/// # Errors
///
/// [`ErrorKind::Config`] for braces without counterpart, more than [`NAMES_MAX`] names, pipes of unknown commands,
/// names that have different kinds, are used twice, or have several roots; [`ErrorKind::Unsupported`] for
/// addresses with a query and for compressions that cannot be read.
pub fn shard_names(list: &str) -> Result<Option<ShardNames>> {
    names_of(list, None)
}

/// Returns the files of a `remote` that are samples, whatever their names; `None` if it is not a list of files but
/// their folder.
///
/// # Errors
///
/// As [`shard_names`].
pub fn sample_names(list: &str) -> Result<Option<ShardNames>> {
    names_of(list, Some(&FILE))
}

/// Returns the files of a list; those that are not all `of_kind` have the kind of their names.
fn names_of(list: &str, of_kind: Option<&'static FileKind>) -> Result<Option<ShardNames>> {
    let has_pipe = list.split("::").any(|part| part.starts_with(PIPE));
    let urls = match expand(list, NAMES_MAX) {
        Ok(urls) => urls,
        // A folder may have any name.
        Err(_) if !has_pipe && !is_hinted(list) => return Ok(None),
        Err(e) => return Err(e.with("remote", redact(list))),
    };
    let kind = match of_kind {
        Some(kind) if urls.iter().any(|url| is_file(url)) => kind,
        None if has_pipe => &TAR,
        // Of a form that cannot be read `check` names the entry.
        None => match urls.iter().find_map(|url| claiming(without_query(url).0)) {
            Some(kind) => kind,
            None => return Ok(None),
        },
        Some(_) => return Ok(None),
    };
    let urls = urls.into_iter().map(read_by_pipe).collect::<Result<Vec<_>>>()?;
    urls.iter().try_for_each(|url| check(url, kind, of_kind.is_some()))?;
    let locations = urls.iter().map(|url| Location::parse(url)).collect::<Result<Vec<_>>>()?;
    let common = common_folders(&locations)?;
    let Some(first) = locations.first() else { return Ok(None) };
    let root = first.folder(common);
    let names = locations.iter().map(|location| location.name(common)).collect::<Result<Vec<_>>>()?;
    names.iter().try_for_each(|name| (kind.check_name)(name))?;
    // A web server's names have no wildcard: `check` rejects those.
    let patterns = if is_web(&root) { 0 } else { names.iter().filter(|name| is_pattern(name)).count() };
    if patterns > PATTERNS_MAX {
        return Err(Error::config(format!(
            "more than {PATTERNS_MAX} names have a wildcard: use wildcards instead of braces"
        )));
    }
    let names = if patterns > 0 { Names::Patterns(names) } else { Names::Listed(unique(names)?) };
    Ok(Some(ShardNames { kind, root, names }))
}

/// Returns the files of [`Names::Patterns`], given the paths of all files below the folder: for each pattern the files
/// that match it, sorted, and each name without a wildcard as it is.
///
/// # Errors
///
/// [`ErrorKind::NotFound`] for a pattern that no file matches; [`ErrorKind::Config`] if a file matches twice.
pub fn matching(patterns: &[String], files: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for pattern in patterns {
        if !is_pattern(pattern) {
            names.push(pattern.clone());
            continue;
        }
        let compiled = Pattern::new(pattern);
        let mut found: Vec<_> = files.iter().filter(|file| compiled.fits(file)).cloned().collect();
        if found.is_empty() {
            return Err(without_match(pattern));
        }
        found.sort_unstable();
        found.iter().try_for_each(|name| check_name(name))?;
        names.append(&mut found);
    }
    if names.len() > NAMES_MAX {
        return Err(Error::config(format!("more than {NAMES_MAX} files match: make several streams")));
    }
    unique(names)
}

/// Returns the files of `kind` among `files`, sorted.
///
/// # Errors
///
/// [`ErrorKind::Config`] for more than [`NAMES_MAX`], and for names that cannot be files of an index.
pub fn names_of_kind(kind: &FileKind, files: &[String]) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for file in files {
        match kind_of(file) {
            Ok(Some(found)) if found == kind => names.push(file.clone()),
            Ok(_) => {}
            Err(e) => log::warn!("{file} is left out: {e}"),
        }
    }
    names.sort_unstable();
    names.iter().try_for_each(|name| check_name(name))?;
    if names.len() > NAMES_MAX {
        let noun = kind.noun;
        return Err(Error::config(format!("the folder has more than {NAMES_MAX} {noun}s: make several streams")));
    }
    Ok(names)
}

/// Start of an entry that is a command.
const PIPE: &str = "pipe:";

/// Returns the addresses that a text with braces expands to, in order.
///
/// # Errors
///
/// [`ErrorKind::Config`] for braces without their counterpart, and for more than [`NAMES_MAX`] addresses.
pub fn expanded(address: &str) -> Result<Vec<String>> {
    braces::expand(address, NAMES_MAX)
}

fn expand(list: &str, names_max: usize) -> Result<Vec<String>> {
    let mut urls = Vec::new();
    for part in list.split("::") {
        urls.append(&mut braces::expand(part, names_max - urls.len())?);
    }
    Ok(urls)
}

fn read_by_pipe(url: String) -> Result<String> {
    match url.strip_prefix(PIPE) {
        Some(command) => pipes::address(command),
        None => Ok(url),
    }
}

/// Returns true if an entry names files and not a folder: the last part has a wildcard or an extension.
fn is_file(url: &str) -> bool {
    let name = url.rsplit('/').next().unwrap_or(url);
    is_pattern(name) || name.contains('.')
}

/// Checks that `url` is the address of a file of `kind`, which it is whatever its name if `is_given`.
fn check(url: &str, kind: &'static FileKind, is_given: bool) -> Result<()> {
    let (shown, noun) = (|| redact(url), kind.noun);
    let (path, has_query) = without_query(url);
    if url.is_empty() {
        return Err(Error::config("a list of files has an empty entry: check its :: and the commas in its braces"));
    }
    if url.contains("${") {
        return Err(Error::config("${...} is not replaced: write its value").with(noun, shown()));
    }
    if !is_given && kind_of(path).context(noun, shown)? != Some(kind) {
        let extensions = kind.extensions;
        let message = format!(
            "the list has {noun}s, but this entry has a different kind: the name of a {noun} ends in {extensions}"
        );
        return Err(Error::config(message).with("entry", shown()));
    }
    if has_query {
        let message = "an address with a query, such as a presigned one, cannot be read: use the store's own scheme, \
                       such as s3://, gs://, azure:// or hf://, with its credentials, or the address without the query";
        return Err(Error::new(ErrorKind::Unsupported, message).with(noun, shown()));
    }
    if is_web(url) && is_pattern(url) {
        let message = "a web server has no listing: write braces, such as {000..146}, instead of *";
        return Err(Error::new(ErrorKind::Unsupported, message).with(noun, shown()));
    }
    Ok(())
}

/// Returns the number of folders that all have in common.
fn common_folders(locations: &[Location<'_>]) -> Result<usize> {
    let Some(first) = locations.first() else { return Ok(0) };
    let mut common = first.plain_folders();
    for location in locations {
        if location.root != first.root {
            let shown = |location: &Location<'_>| match location.root {
                "" | "/" => location.folder(0),
                root => redact(root).into_owned(),
            };
            let message = "the files of a list are below two roots: make one stream for each";
            return Err(Error::config(message).with("root", shown(first)).with("root", shown(location)));
        }
        let folders = location.parts[..location.plain_folders()].iter().zip(&first.parts[..common]);
        common = folders.take_while(|(a, b)| a == b).count();
    }
    Ok(common)
}

pub(super) fn unique(names: Vec<String>) -> Result<Vec<String>> {
    let mut seen = HashSet::with_capacity(names.len());
    names.iter().find(|name| !seen.insert(name.as_str())).map_or(Ok(()), |name| Err(named_twice(name)))?;
    Ok(names)
}

/// Returns the error for a pattern that no file matches.
pub(super) fn without_match(pattern: &str) -> Error {
    let message = "no file matches the pattern, in which ** is any number of folders, and * and ? are wildcards within \
                   one part of a path";
    Error::new(ErrorKind::NotFound, message).with("pattern", pattern)
}

/// Returns the error for a file that a list names twice.
pub(super) fn named_twice(name: &str) -> Error {
    let message = "a file is in the list twice: remove one, and use `repeat` of a stream for samples that are seen \
                   more often";
    Error::config(message).with("file", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(list: &str) -> (String, Vec<String>) {
        match shard_names(list).expect(list).expect(list) {
            ShardNames { kind, root, names: Names::Listed(names) } if kind == &TAR => (root, names),
            other => panic!("{list}: {other:?}"),
        }
    }

    #[test]
    fn tars_are_names_below_their_common_folder() {
        for (list, root, names) in [
            ("s3://b/t/x-{00..02}.tar", "s3://b/t", &["x-00.tar", "x-01.tar", "x-02.tar"] as &[&str]),
            ("s3://b/{a,b}/x.tar", "s3://b", &["a/x.tar", "b/x.tar"]),
            ("s3://b/t/{a,b}/{0..1}.tgz", "s3://b/t", &["a/0.tgz", "a/1.tgz", "b/0.tgz", "b/1.tgz"]),
            ("s3://b/t/b.tar::s3://b/t/a.tar", "s3://b/t", &["b.tar", "a.tar"]),
            ("s3://b/t/b.tar::s3://b/tt/a.tar", "s3://b", &["t/b.tar", "tt/a.tar"]),
            ("s3://b/t/b.tar::s3://b/t/u/a.tar", "s3://b/t", &["b.tar", "u/a.tar"]),
            ("s3://b/t/u/b.tar::s3://b/t/a.tar", "s3://b/t", &["u/b.tar", "a.tar"]),
            ("s3://b/x.tar", "s3://b", &["x.tar"]),
            ("/data/x.tar", "/data", &["x.tar"]),
            ("/x.tar", "/", &["x.tar"]),
            ("//data//./x.tar", "/data", &["x.tar"]),
            ("x.tar.gz", ".", &["x.tar.gz"]),
            ("./x.tar::y.tar", ".", &["x.tar", "y.tar"]),
            ("../a/x.tar", "../a", &["x.tar"]),
            ("file:///data/x.tar::/data/y.tar", "/data", &["x.tar", "y.tar"]),
            ("file://localhost/data/x.tar", "/data", &["x.tar"]),
            ("https://h:81/a%20b/x%20y.tar", "https://h:81/a%20b", &["x y.tar"]),
            ("http://h/x{0..1}.tar", "http://h", &["x0.tar", "x1.tar"]),
            ("hf://datasets/o/n/x.tar", "hf://datasets/o/n", &["x.tar"]),
            ("hf://datasets/o/n@refs/pr/1/t/x.tar", "hf://datasets/o/n@refs/pr/1/t", &["x.tar"]),
            ("azure://a.blob.core.windows.net/c/x.tar", "azure://a.blob.core.windows.net/c", &["x.tar"]),
            ("azure://c@a/x.tar", "azure://c@a", &["x.tar"]),
            ("azure-dl://c/x.tar", "azure-dl://c", &["x.tar"]),
            ("oci://b@n/t/x.tar", "oci://b@n/t", &["x.tar"]),
            ("dbfs:/Volumes/a/b/c/x.tar", "dbfs:/Volumes/a/b/c", &["x.tar"]),
            ("sftp://me:secret@h:22/t/x.tar", "sftp://me:secret@h:22/t", &["x.tar"]),
            ("pipe:aws s3 cp s3://b/t/{0..1}.tar - || true", "s3://b/t", &["0.tar", "1.tar"]),
            ("pipe:curl -s -L https://h/t/0.tar::https://h/t/1.tar", "https://h/t", &["0.tar", "1.tar"]),
            ("pipe:cat /data/0.tar", "/data", &["0.tar"]),
            ("/data/\\{a\\}.tar", "/data", &["{a}.tar"]),
            ("/data/{a}.tar", "/data", &["{a}.tar"]),
        ] {
            let (found_root, found) = listed(list);
            assert_eq!((found_root.as_str(), found), (root, names.iter().map(|n| (*n).to_owned()).collect()), "{list}");
        }
    }

    #[test]
    fn the_folder_of_a_data_set_is_not_a_list_of_tars() {
        for remote in [
            "",
            "data",
            "/data/train",
            "s3://b/train",
            "s3://b/train/",
            "s3://b/{a,b}",
            "/data/x.tar/",
            "/data/{x",
            "/data/{0..99999999999}",
            "/data/a::b",
            "https://h/get?file=x.tar",
            "me:secret@h:/x",
            "s3://b/x.tar.d",
        ] {
            assert_eq!(shard_names(remote).expect(remote), None, "{remote}");
        }
    }

    #[test]
    fn a_list_has_files_of_one_kind() {
        let found = shard_names("/data/{a,b}/0.JPG::/data/a/1.png").unwrap().unwrap();
        assert_eq!((found.kind, &*found.root), (&FILE, "/data"));
        assert_eq!(found.names.listed(), ["a/0.JPG", "b/0.JPG", "a/1.png"]);
        for list in ["/data/0.jpg::/data/0.tar", "/data/0.jpg::/data/x"] {
            let e = shard_names(list).unwrap_err();
            assert!(e.to_string().contains("the list has files, but this entry has a different kind"), "{e}");
        }
    }

    #[test]
    fn files_of_any_name_are_samples_on_request() {
        let found = sample_names("s3://b/a/**/*.flac::s3://b/a/x.txt").unwrap().unwrap();
        assert_eq!((found.kind, &*found.root), (&FILE, "s3://b/a"));
        assert_eq!(found.names, Names::Patterns(vec!["**/*.flac".to_owned(), "x.txt".to_owned()]));
        assert_eq!(sample_names("s3://b/a").unwrap(), None);
        assert_eq!(shard_names("s3://b/a/*.flac").unwrap(), None);
        let e = sample_names("/data/*/../x.txt").unwrap_err();
        assert!(e.to_string().contains("*/../x.txt"), "{e}");
        assert_eq!(sample_names("/data/a b/100%#+.txt").unwrap().unwrap().names.listed(), ["100%#+.txt"]);
    }

    #[test]
    fn wildcards_are_left_to_a_listing() {
        for (list, root, patterns) in [
            ("s3://b/t/*.tar", "s3://b/t", &["*.tar"] as &[&str]),
            ("/data/{a,b}/*.tar", "/data", &["a/*.tar", "b/*.tar"]),
            ("/data/*/x?.tar", "/data", &["*/x?.tar"]),
            ("/data/a/**/x.tar", "/data/a", &["**/x.tar"]),
            ("/data/a/x.tar::/data/a/b*/y.tar", "/data/a", &["x.tar", "b*/y.tar"]),
        ] {
            let names = Names::Patterns(patterns.iter().map(|n| (*n).to_owned()).collect());
            let found = shard_names(list).expect(list).expect(list);
            assert_eq!((found.kind, &*found.root, found.names), (&TAR, root, names), "{list}");
        }
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let files = texts(&["b/2.tar", "index.json", "b/1.tar", "a/1.tar", "a/1.tar.idx"]);
        let names = |patterns: &[&str]| matching(&texts(patterns), &files);
        assert_eq!(names(&["b/*.tar", "x.tar", "a/?.tar"]).expect("found"), ["b/1.tar", "b/2.tar", "x.tar", "a/1.tar"]);
        assert_eq!(names(&["c/*.tar"]).expect_err("none").kind(), ErrorKind::NotFound);
        let e = names(&["b/*.tar", "*/1.tar"]).expect_err("twice");
        assert!(e.to_string().contains("twice") && e.to_string().contains("b/1.tar"), "{e}");
    }

    #[test]
    fn the_lists_share_the_bound_of_their_names() {
        assert_eq!(expand("{0..3}::{0..3}", 8).expect("as many as allowed").len(), 8);
        let e = expand("{0..3}::{0..3}", 7).expect_err("one more");
        assert!(e.to_string().contains("more names"), "{e}");
    }

    #[test]
    fn a_wrong_list_names_the_entry_and_the_change() {
        for (list, kind, says) in [
            ("s3://a/x.tar::s3://b/x.tar", ErrorKind::Config, "one stream for each (root s3://a, root s3://b)"),
            ("s3://a/x.tar::gs://a/x.tar", ErrorKind::Config, "root gs://a"),
            ("s3://a/x.tar::/data/x.tar", ErrorKind::Config, "root s3://a, root /)"),
            ("x.tar::/data/x.tar", ErrorKind::Config, "root ., root /)"),
            ("hf://datasets/o/n/x.tar::hf://datasets/o/m/x.tar", ErrorKind::Config, "root hf://datasets/o/m"),
            ("sftp://me:secret@h/x.tar::sftp://h/x.tar", ErrorKind::Config, "root sftp://...@h"),
            ("/data/{0..2}.tar::/data/1.tar", ErrorKind::Config, "twice: remove one, and use `repeat` of a stream"),
            ("/data/x.tar::file:///data/x.tar", ErrorKind::Config, "(file x.tar)"),
            ("s3://b/x.tar::s3://b/y.zip", ErrorKind::Config, "but this entry has a different kind"),
            ("s3://b/x.tar::s3://b/train", ErrorKind::Config, "(entry s3://b/train)"),
            ("s3://b/x.tar::", ErrorKind::Config, "empty entry"),
            ("pipe:cat /data/x", ErrorKind::Config, "(entry /data/x)"),
            ("pipe:zcat /data/x.tar.gz", ErrorKind::Config, "a pipe is not run"),
            ("pipe:aws s3 cp s3://b/${NAME}.tar -", ErrorKind::Config, "a pipe is not run"),
            ("s3://b/${NAME}.tar", ErrorKind::Config, "${...} is not replaced"),
            ("https://h/x.tar?sig=secret", ErrorKind::Unsupported, "presigned"),
            ("https://h/x.tar#secret", ErrorKind::Unsupported, "presigned"),
            ("s3://b/x.tar?versionId=secret", ErrorKind::Unsupported, "(tar s3://b/x.tar)"),
            ("https://h/*.tar", ErrorKind::Unsupported, "no listing"),
            ("https://h/a%2Fb.tar", ErrorKind::Unsupported, "%2F"),
            ("/data/x.tar.xz", ErrorKind::Unsupported, ".tar.gz or .tar.zst"),
            ("file:data/x.tar", ErrorKind::Config, "three slashes"),
            ("s3://x.tar", ErrorKind::Config, "whole bucket"),
            ("s3://b//x.tar", ErrorKind::Config, "no two in a row"),
            ("a/x.tar::a/../b/x.tar", ErrorKind::Config, "not a plain path"),
            ("/data/x\n.tar", ErrorKind::Config, "control characters"),
            ("/data/x-{0..1.tar", ErrorKind::Config, "no counterpart"),
            ("/data/x-{0..99999999}.tar", ErrorKind::Config, "more names"),
            ("/data/{0..2000}/*.tar", ErrorKind::Config, "have a wildcard"),
        ] {
            let e = shard_names(list).expect_err(list);
            assert_eq!(e.kind(), kind, "{list}: {e}");
            assert!(e.to_string().contains(says) && !e.to_string().contains("secret"), "{list}: {e}");
        }
    }
}
