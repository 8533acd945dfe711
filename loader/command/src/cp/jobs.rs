//! Objects of the sources, and their targets.

use crate::addresses::{Address, Entries, Found, absolute, name};
use forebay_loader::objects::{ObjectEntry, Objects, is_root};
use forebay_loader::store::{is_url, local_folder, redact};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, ErrorKind, Result};
use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

/// Object that is to be copied.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) source: String,
    /// The object as its store lists it; none of a web server.
    pub(super) entry: Option<ObjectEntry>,
    pub(super) target: String,
}

/// Target of a command.
#[derive(Debug)]
pub(super) struct Target {
    /// Address; one of a folder ends with a slash.
    url: String,
    is_local: bool,
}

impl Target {
    /// Target of one source, or of several.
    ///
    /// # Errors
    ///
    /// `Config` for a text that is no address.
    pub(super) fn of(text: &str, are_several: bool) -> Result<Self> {
        let local = local_folder(text);
        let mut url = absolute(text);
        let is_folder = are_several || is_root(&url)? || local.as_deref().is_some_and(std::path::Path::is_dir);
        if is_folder && !url.ends_with('/') {
            url.push('/');
        }
        Ok(Self { url, is_local: local.is_some() })
    }

    /// Returns the target of one object.
    fn of_object(&self, url: &str) -> Result<String> {
        if self.url.ends_with('/') { self.below(name(url)) } else { Ok(self.url.clone()) }
    }

    /// Returns the target of an object with a path below its folder.
    fn below(&self, path: &str) -> Result<String> {
        let is_part = |part: &str| !matches!(part, "" | "." | "..");
        // Such a key would be written elsewhere in the file system.
        if self.is_local && !path.split('/').all(is_part) {
            let message = "the key of the object is not a path of a file: copy it alone, to a different name";
            return Err(Error::config(message).with("key", path));
        }
        let slash = if self.url.ends_with('/') { "" } else { "/" };
        Ok(format!("{}{slash}{path}", self.url))
    }
}

/// Objects of the sources, in their order. Pages of listings are fetched as they are needed.
pub(super) struct Jobs {
    objects: Arc<Objects>,
    sources: VecDeque<Address>,
    target: Target,
    is_recursive: bool,
    entries: Option<Entries>,
    page: VecDeque<ObjectEntry>,
    /// Hashes of the targets so far, if two sources may have the same one.
    targets: Option<(RandomState, HashSet<u64>)>,
}

impl Jobs {
    pub(super) fn new(objects: Arc<Objects>, sources: Vec<Address>, target: Target, is_recursive: bool) -> Self {
        let targets = (sources.len() > 1).then(Default::default);
        let (sources, page) = (sources.into(), VecDeque::new());
        Self { objects, sources, target, is_recursive, entries: None, page, targets }
    }

    /// Returns the next object, or the failure of one or of a source; none at the end.
    pub(super) fn next(&mut self) -> Option<Result<Job>> {
        loop {
            if let Some(entry) = self.page.pop_front() {
                let source = entry.url.clone();
                return Some(self.listed(entry).map_err(|error| error.with("source", redact(&source))));
            }
            if let Some(entries) = &mut self.entries {
                match entries.next_page() {
                    Ok(Some(page)) => self.page = page.into(),
                    Ok(None) => self.entries = None,
                    Err(error) => {
                        self.entries = None;
                        return Some(Err(error));
                    }
                }
                continue;
            }
            let source = self.sources.pop_front()?;
            match self.start(&source) {
                Ok(None) => {}
                Ok(Some(job)) => return Some(Ok(job)),
                Err(error) => return Some(Err(error.with("source", redact(&source.url)))),
            }
        }
    }

    /// Returns the job of a source that is one object, or begins to list it.
    fn start(&mut self, source: &Address) -> Result<Option<Job>> {
        let found = match source.find(&self.objects, self.is_recursive) {
            // A web server has no listing, and the object may be there.
            Err(error) if error.kind() == ErrorKind::Unsupported && is_url(&source.url) && !source.is_pattern() => {
                return self.job(source.url.clone(), None, self.target.of_object(&source.url)?).map(Some);
            }
            found => found?,
        };
        let entries = match found {
            Found::Object(entry) => {
                let target = self.target.of_object(&entry.url)?;
                return self.job(entry.url.clone(), Some(entry), target).map(Some);
            }
            Found::Several(entries) => *entries,
        };
        if !self.is_recursive && !source.is_pattern() {
            return Err(Error::config("this is a folder: pass -r to copy all that is below"));
        }
        if self.is_recursive && resolved(&self.target.url).starts_with(&resolved(entries.folder())) {
            return Err(Error::config("the target is in the folder that is copied: choose a different one"));
        }
        self.entries = Some(entries);
        Ok(None)
    }

    fn listed(&mut self, entry: ObjectEntry) -> Result<Job> {
        if entry.url.ends_with('/') {
            return Err(Error::config("this is a folder: pass -r to copy all that is below"));
        }
        let path = self.entries.as_ref().map_or_else(|| name(&entry.url), |entries| entries.path(&entry));
        let target = self.target.below(path)?;
        self.job(entry.url.clone(), Some(entry), target)
    }

    fn job(&mut self, source: String, entry: Option<ObjectEntry>, target: String) -> Result<Job> {
        if source == target {
            return Err(Error::config("the source and the target are the same object"));
        }
        if let Some((state, targets)) = &mut self.targets
            && !targets.insert(state.hash_one(&target))
        {
            let message = "two sources have the same target: copy them to different folders";
            return Err(Error::config(message).with("target", redact(&target)));
        }
        Ok(Job { source, entry, target })
    }
}

/// Returns the address of a folder with a slash at its end, through the links of this machine.
fn resolved(folder: &str) -> String {
    let path = local_folder(folder).and_then(|path| {
        // A part of the target may not exist yet.
        let (above, real) = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)))?;
        Some(real.join(path.strip_prefix(above).ok()?))
    });
    let path = path.as_deref().and_then(std::path::Path::to_str).unwrap_or(folder);
    format!("{}/", path.trim_end_matches('/'))
}
