//! Facts about the folders of a stream, from their stores and from this machine.

use super::files::{first_names, has_kept_list, has_list};
use super::opening::Opening;
use super::requests::peek;
use super::rules::{Facts, IndexForm};
use super::session::Session;
use crate::config::StreamConfig;
use crate::error::{ErrorKind, Result};
use crate::format::INDEX_BASENAME;
use crate::io::read_up_to_at;
use crate::store::{ListedEntry, local_folder};
use crate::sync::Mutex;
use std::collections::HashMap;
use std::path::Path;

/// Names by which the kind of a folder is known.
pub(super) const NAMES_SEEN: usize = 1000;

/// First bytes of a file by which its kind is known.
const FRONT_BYTES: usize = 64;

/// Facts for one stream.
pub(super) struct StreamFacts<'a> {
    session: &'a Session<'a>,
    stream: &'a StreamConfig,
    /// First names of folders that were listed.
    first: Mutex<HashMap<String, Option<Vec<String>>>>,
}

impl<'a> StreamFacts<'a> {
    pub(super) fn new(session: &'a Session<'a>, stream: &'a StreamConfig) -> Self {
        Self { session, stream, first: Mutex::new(HashMap::new()) }
    }

    /// Returns the first bytes of a file of `folder`; none of one that cannot be read.
    pub(super) fn front(&self, folder: &str, name: &str) -> Vec<u8> {
        if let Some(folder) = local_folder(folder) {
            let mut front = vec![0; FRONT_BYTES];
            let read =
                std::fs::File::open(folder.join(name)).ok().and_then(|file| read_up_to_at(file, &mut front, 0).ok());
            front.truncate(read.unwrap_or(0));
            return front;
        }
        let remote = self.session.remote(self.stream, folder);
        remote.and_then(|remote| Ok(peek(&remote, name, FRONT_BYTES)?.front)).unwrap_or_default()
    }

    fn list_first(&self, folder: &str) -> Result<Option<Vec<String>>> {
        if let Some(folder) = local_folder(folder) {
            return folder.is_dir().then(|| first_names(&folder, NAMES_SEEN)).transpose();
        }
        let page = || self.session.destination(self.stream, folder)?.list("", true)?.next_page();
        match page() {
            Ok(page) => Ok(Some(page.unwrap_or_default().into_iter().map(|entry| entry.key).collect())),
            // A store without listings, or without the permission.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission | ErrorKind::Unsupported) => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

impl Facts for StreamFacts<'_> {
    fn index_in(&self, folder: &Path) -> Option<IndexForm> {
        if has_list(folder) {
            return Some(IndexForm::FileList);
        }
        folder.join(INDEX_BASENAME).exists().then_some(IndexForm::DataSet)
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn has_kept_list(&self, name: &str) -> bool {
        has_kept_list(&Opening { session: self.session, stream: self.stream, root: name })
    }

    fn first_names(&self, folder: &str) -> Result<Option<Vec<String>>> {
        let known = self.first.lock().get(folder).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = self.list_first(folder)?;
        self.first.lock().insert(folder.to_owned(), found.clone());
        Ok(found)
    }

    fn all(&self, folder: &str) -> Result<Vec<ListedEntry>> {
        self.session.destination(self.stream, folder)?.list_all("")
    }

    fn file(&self, folder: &str, name: &str, bytes_max: usize) -> Result<Vec<u8>> {
        Ok(self.session.remote(self.stream, folder)?.get_small(name, bytes_max)?.0)
    }
}
