//! First bytes and lengths of the files of an index, from a store or a folder.

use super::requests::peek_all;
use crate::error::{Context, Error, Result};
use crate::format::litdata::Fronts;
use crate::io::read_up_to_at;
use crate::store::Remote;
use std::path::Path;

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
