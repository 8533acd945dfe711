//! First bytes and lengths of many files.

use crate::error::{Context, Error, Result};
use crate::format::litdata::Fronts;
use crate::io::read_up_to_at;
use crate::store::{Peek, Remote};
use std::path::Path;

/// Files that are requested at the same time.
const AT_ONCE: usize = 256;

/// Returns the first `bytes` of each of the files `names`, at least one, and their lengths.
///
/// # Errors
///
/// Errors of the store; `Unsupported` where a server does not report lengths.
pub(super) fn peek_all(remote: &Remote, names: &[&str], bytes: usize) -> Result<Vec<Peek>> {
    let mut all: Vec<Option<Peek>> = names.iter().map(|_| None).collect();
    for (names, found) in names.chunks(AT_ONCE).zip(all.chunks_mut(AT_ONCE)) {
        let (sender, receiver) = crossbeam::channel::bounded(names.len());
        for (number, name) in names.iter().enumerate() {
            let sender = sender.clone();
            remote.peek(name, bytes, move |outcome| drop(sender.send((number, outcome))))?;
        }
        drop(sender);
        for _ in 0..names.len() {
            let (number, outcome) = receiver.recv().map_err(|_| without_outcome())?;
            found[number] = Some(outcome?);
        }
    }
    all.into_iter().map(|peek| peek.ok_or_else(without_outcome)).collect()
}

fn without_outcome() -> Error {
    Error::internal("a request of a file's length has no outcome")
}

/// Files of a store.
pub(super) struct StoredFiles<'a>(pub(super) &'a Remote);

impl Fronts for StoredFiles<'_> {
    fn fronts(&self, names: &[&str], bytes: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        Ok(peek_all(self.0, names, bytes)?.into_iter().map(|peek| (peek.front, peek.len)).collect())
    }
}

/// Files of a folder on this machine.
pub(super) struct LocalFiles<'a>(pub(super) &'a Path);

impl Fronts for LocalFiles<'_> {
    fn fronts(&self, names: &[&str], bytes: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        let front = |name: &&str| {
            let path = self.0.join(name);
            let read = || {
                let failed = |e: std::io::Error| Error::from_io(e, "a chunk cannot be read");
                let meta = std::fs::metadata(&path).map_err(failed)?;
                if !meta.is_file() {
                    // The open of a pipe would wait for its writer.
                    return Err(failed(std::io::ErrorKind::InvalidInput.into()));
                }
                let len = meta.len();
                let mut front = vec![0; bytes.min(usize::try_from(len).unwrap_or(bytes))];
                let there = read_up_to_at(std::fs::File::open(&path).map_err(failed)?, &mut front, 0)?;
                front.truncate(there);
                Ok((front, len))
            };
            read().context("file", || path.display())
        };
        names.iter().map(front).collect()
    }
}
