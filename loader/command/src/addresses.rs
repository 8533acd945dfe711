//! Addresses of commands: one object, a folder, or all that fit a pattern.
//!
//! Braces expand, and `*`, `?` and `**` are wildcards as in the lists of a loader. An object with wildcards in its
//! name, and a local file with braces, is meant by its name.

use forebay_loader::error::Context as _;
use forebay_loader::objects::{ObjectEntry, ObjectListing, Objects, is_root};
use forebay_loader::sources::{Pattern, expanded, is_pattern};
use forebay_loader::store::{local_folder, redact};
use forebay_loader::{Error, ErrorKind, Result};
use std::path::{Component, Path, PathBuf};

/// Address of a command, without braces.
#[derive(Debug)]
pub(crate) struct Address {
    /// The address. A local one is absolute.
    pub(crate) url: String,
    is_pattern: bool,
}

/// Meaning of an address.
#[derive(Debug)]
pub(crate) enum Found {
    /// One object.
    Object(ObjectEntry),
    /// Objects below a folder, or with names that fit a pattern.
    Several(Box<Entries>),
}

impl Address {
    /// Returns the addresses that `text` expands to.
    ///
    /// # Errors
    ///
    /// `Config` for wrong braces.
    pub(crate) fn all(text: &str) -> Result<Vec<Self>> {
        if is_local_file(text) {
            return Ok(vec![Self { url: absolute(text), is_pattern: false }]);
        }
        let urls = expanded(text).context("address", || redact(text))?;
        Ok(urls.into_iter().map(|url| Self::of(&url)).collect())
    }

    fn of(text: &str) -> Self {
        let is_web = text.starts_with("http://") || text.starts_with("https://");
        // A query of a web server begins with a question mark, and it has no listing.
        Self { url: absolute(text), is_pattern: !is_web && is_pattern(text) && !is_local_file(text) }
    }

    /// True if it names all objects that fit it.
    pub(crate) fn is_pattern(&self) -> bool {
        self.is_pattern
    }

    /// Looks for the object or the folder. `is_recursive` includes the objects in folders of the folder.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is neither; errors of the store.
    pub(crate) fn find(&self, objects: &Objects, is_recursive: bool) -> Result<Found> {
        if self.is_pattern {
            // Permission to list does not include the one to ask for an object.
            if let Ok(Some(entry)) = objects.find(&self.url) {
                return Ok(Found::Object(entry));
            }
            return Ok(Found::Several(Box::new(Entries::fitting(objects, &self.url, is_recursive)?)));
        }
        if !self.url.ends_with('/')
            && !is_root(&self.url)?
            && let Some(entry) = objects.find(&self.url)?
        {
            return Ok(Found::Object(entry));
        }
        let folder = format!("{}/", self.url.trim_end_matches('/'));
        let mut listing = objects.list(&folder, is_recursive)?;
        let first = listing.next_page()?;
        let is_there = first.as_ref().is_some_and(|page| !page.is_empty())
            || is_root(&folder)?
            || local_folder(&folder).is_some_and(|path| path.is_dir());
        if !is_there {
            let message = "there is no object and no folder of this name";
            return Err(Error::new(ErrorKind::NotFound, message).with("url", redact(&self.url)));
        }
        Ok(Found::Several(Box::new(Entries { folder, listing, first, filter: None })))
    }
}

/// Objects, page by page. Their addresses have a part below the common folder.
#[derive(Debug)]
pub(crate) struct Entries {
    /// Common folder, with a slash at its end.
    folder: String,
    listing: ObjectListing,
    first: Option<Vec<ObjectEntry>>,
    filter: Option<Filter>,
}

#[derive(Debug)]
struct Filter {
    address: String,
    pattern: Pattern,
    /// An object fits if a folder above it does.
    is_recursive: bool,
    has_found: bool,
}

impl Entries {
    fn fitting(objects: &Objects, address: &str, is_recursive: bool) -> Result<Self> {
        let wild = address.find(['*', '?']).unwrap_or(address.len());
        let (folder, pattern) = address.split_at(address[..wild].rfind('/').map_or(0, |slash| slash + 1));
        let is_deep = pattern.contains('/') || pattern.contains("**");
        let listing = objects.list(&address[..wild], is_recursive || is_deep)?;
        let pattern = Pattern::new(pattern.trim_end_matches('/'));
        let filter = Filter { address: redact(address).into_owned(), pattern, is_recursive, has_found: false };
        Ok(Self { folder: folder.to_owned(), listing, first: None, filter: Some(filter) })
    }

    /// Returns the next objects and folders; none at the end.
    ///
    /// # Errors
    ///
    /// The failure of the store; `NotFound` at the end if no object fits the pattern.
    pub(crate) fn next_page(&mut self) -> Result<Option<Vec<ObjectEntry>>> {
        let page = match self.first.take() {
            Some(page) => Some(page),
            None => self.listing.next_page()?,
        };
        let Some(filter) = &mut self.filter else { return Ok(page) };
        let Some(mut page) = page else {
            return if filter.has_found {
                Ok(None)
            } else {
                filter.has_found = true;
                let error = Error::new(ErrorKind::NotFound, "no object has a name that fits the pattern");
                Err(error.with("url", &filter.address))
            };
        };
        page.retain(|entry| filter.fits(below(&self.folder, &entry.url)));
        filter.has_found |= !page.is_empty();
        Ok(Some(page))
    }

    /// Returns the path of an entry below the common folder.
    pub(crate) fn path<'a>(&self, entry: &'a ObjectEntry) -> &'a str {
        below(&self.folder, &entry.url)
    }

    /// Returns the common folder, with a slash at its end.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }
}

impl Filter {
    fn fits(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let above = path.match_indices('/').map(|(slash, _)| &path[..slash]);
        self.pattern.fits(path) || self.is_recursive && above.into_iter().any(|folder| self.pattern.fits(folder))
    }
}

fn below<'a>(folder: &str, url: &'a str) -> &'a str {
    url.strip_prefix(folder).unwrap_or_else(|| name(url))
}

/// Returns the last part of an address.
pub(crate) fn name(url: &str) -> &str {
    url.trim_end_matches('/').rsplit('/').next().unwrap_or(url)
}

/// Returns an address with the whole path if it is local, and otherwise as it is. A part `..` is the folder above the
/// one that a link leads to.
pub(crate) fn absolute(url: &str) -> String {
    let path = local_folder(url).and_then(|path| std::path::absolute(path).ok()).map(|path| {
        let parts: Vec<_> = path.components().collect();
        let Some(last) = parts.iter().rposition(|part| *part == Component::ParentDir) else { return path };
        let above: PathBuf = parts[..=last].iter().collect();
        let below: PathBuf = parts[last + 1..].iter().collect();
        // A folder that does not exist is an error of its use.
        above.canonicalize().map_or_else(|_| path.clone(), |above| above.join(below))
    });
    let Some(path) = path.as_deref().and_then(Path::to_str) else { return url.to_owned() };
    let slash = if url.ends_with('/') && !path.ends_with('/') { "/" } else { "" };
    format!("{path}{slash}")
}

fn is_local_file(text: &str) -> bool {
    local_folder(text).is_some_and(|path| path.symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::objects::settings_from_json;
    use tempfile::TempDir;

    fn folder() -> TempDir {
        let folder = tempfile::tempdir().expect("temporary folder");
        for name in ["a-0.tar", "a-1.tar", "b.txt", "deep/a-2.tar", "deep/er/c.txt", "x{1}.tar"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, name).expect("written");
        }
        std::fs::create_dir(folder.path().join("empty")).expect("made");
        folder
    }

    /// Paths of the objects that `text` names below `folder`.
    fn found(folder: &TempDir, text: &str, is_recursive: bool) -> Result<Vec<String>> {
        let objects = Objects::new(settings_from_json("{}")?)?;
        let start = format!("{}/", folder.path().display());
        let mut paths = Vec::new();
        for address in Address::all(&format!("{start}{text}"))? {
            match address.find(&objects, is_recursive)? {
                Found::Object(entry) => paths.push(entry.url),
                Found::Several(mut entries) => {
                    while let Some(page) = entries.next_page()? {
                        paths.extend(page.into_iter().map(|entry| entry.url));
                    }
                }
            }
        }
        Ok(paths.into_iter().map(|path| path.strip_prefix(&start).expect("below").to_owned()).collect())
    }

    #[test]
    fn addresses_are_objects_folders_and_patterns() {
        let folder = folder();
        for (text, is_recursive, paths) in [
            ("b.txt", false, &["b.txt"][..]),
            ("deep", false, &["deep/a-2.tar", "deep/er/"]),
            ("deep/", true, &["deep/a-2.tar", "deep/er/c.txt"]),
            ("a-{1..0}.tar", false, &["a-1.tar", "a-0.tar"]),
            ("a-?.tar", false, &["a-0.tar", "a-1.tar"]),
            ("**/*.tar", false, &["a-0.tar", "a-1.tar", "deep/a-2.tar", "x{1}.tar"]),
            ("d*", false, &["deep/"]),
            ("d*", true, &["deep/a-2.tar", "deep/er/c.txt"]),
            ("*/er/", true, &["deep/er/c.txt"]),
            ("x{1}.tar", false, &["x{1}.tar"]),
            ("empty", false, &[]),
            ("deep/../b.txt", false, &["b.txt"]),
            ("deep/er/../../a-*.tar", false, &["a-0.tar", "a-1.tar"]),
        ] {
            assert_eq!(found(&folder, text, is_recursive).expect(text), paths, "{text}");
        }
    }

    #[test]
    fn an_address_of_nothing_is_an_error_with_its_name() {
        let folder = folder();
        for text in ["none", "none/", "b.txt/", "c*", "a-{0,7}.tar"] {
            let error = found(&folder, text, false).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::NotFound, "{text}");
            let named = text.replace("{0,7}", "7");
            assert!(error.to_string().contains(&named), "{error}");
        }
        let error = found(&folder, "a-{0.tar", false).expect_err("braces");
        assert_eq!(error.kind(), ErrorKind::Config);
    }
}
