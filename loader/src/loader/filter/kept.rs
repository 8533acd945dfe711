//! Answers of the shards of a stream, and their file.
//!
//! The file has a record for each shard that was read, appended when the shard is done. So a pass that was killed
//! continues, and shards of which another loader needs no sample are added later. Its folder has the name of a digest of
//! filter and data, hence answers for other data or of another filter are never taken. A record that is damaged ends the
//! file.

use super::answer::{Bits, bytes_of};
use crate::error::{Error, Result};
use crate::format::HashAlgo;
use crate::sync::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Name of the file.
const BASENAME: &str = "answers";

/// First bytes of the file; the number is that of its format.
const MAGIC: &[u8] = b"forebay filter 1\n";

/// Answers of the shards of a stream, as far as they are known.
#[derive(Debug)]
pub(super) struct KeptAnswers {
    /// Folder of the file, if there is a place for one.
    folder: Option<PathBuf>,
    /// Samples of each shard.
    sizes: Vec<u64>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bits: Vec<Option<Bits>>,
    /// Bytes of the file that are whole records; `None` if it cannot be written.
    whole_bytes: Option<u64>,
    file: Option<File>,
}

impl KeptAnswers {
    /// Reads the answers that are kept in `folder`, for shards of `sizes`.
    pub(super) fn open(folder: Option<PathBuf>, sizes: Vec<u64>) -> Self {
        let bits = vec![None; sizes.len()];
        let state = Mutex::new(State { bits, whole_bytes: Some(0), file: None });
        let answers = Self { folder, sizes, state };
        answers.read_again();
        answers
    }

    /// Folder of the file.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Reads what other processes have added.
    pub(super) fn read_again(&self) {
        let Some(path) = self.path() else { return };
        let mut state = self.state.lock();
        let read = File::open(&path).and_then(|file| self.records(BufReader::new(file), &mut state.bits));
        match read {
            Ok((bytes, is_damaged)) => {
                if is_damaged {
                    log::warn!("{} has a damaged record: its shards are read again", path.display());
                }
                state.whole_bytes = state.whole_bytes.map(|_| bytes);
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => log::warn!("answers to a filter cannot be read: {}: {e}", path.display()),
        }
    }

    /// True if the answer of `shard` is known.
    pub(super) fn has(&self, shard: u32) -> bool {
        self.state.lock().bits[shard as usize].is_some()
    }

    /// Adds the answer of `shard`.
    ///
    /// # Errors
    ///
    /// `Internal` for another number of samples than the shard has.
    pub(super) fn add(&self, shard: u32, bits: Bits) -> Result<()> {
        if self.sizes.get(shard as usize) != Some(&bits.len()) {
            return Err(Error::internal("an answer has another number of samples than its shard"));
        }
        let mut state = self.state.lock();
        if let Err(e) = self.append(&mut state, shard, &bits) {
            (state.file, state.whole_bytes) = (None, None);
            log::warn!("answers to a filter are not kept, so its columns are read again: {e}");
        }
        state.bits[shard as usize] = Some(bits);
        Ok(())
    }

    /// Returns the answers of all shards.
    pub(super) fn finish(self) -> Vec<Option<Bits>> {
        std::mem::take(&mut self.state.lock().bits)
    }

    fn path(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(BASENAME))
    }

    fn append(&self, state: &mut State, shard: u32, bits: &Bits) -> std::io::Result<()> {
        let (Some(folder), Some(path), Some(whole_bytes)) = (&self.folder, self.path(), state.whole_bytes) else {
            return Ok(());
        };
        let mut record = Vec::new();
        let file = match &mut state.file {
            Some(file) => file,
            None => {
                std::fs::create_dir_all(folder)?;
                let file = OpenOptions::new().append(true).create(true).open(path)?;
                // The rest is damaged, or a record of a process that was killed.
                file.set_len(whole_bytes)?;
                if whole_bytes == 0 {
                    record.extend(MAGIC);
                }
                state.file.insert(file)
            }
        };
        let start = record.len();
        record.extend(shard.to_le_bytes());
        record.extend(bits.bytes());
        let digest = HashAlgo::Xxh3_64.hex(&record[start..]);
        record.extend(digest.bytes());
        // One call writes a whole record, so that processes can share the file.
        file.write_all(&record)
    }

    /// Reads records into `bits`. Returns the bytes of all whole ones, and true if others follow.
    fn records(&self, mut file: impl Read, bits: &mut [Option<Bits>]) -> std::io::Result<(u64, bool)> {
        let mut magic = [0; MAGIC.len()];
        if !read_whole(&mut file, &mut magic)? || magic != MAGIC {
            return Ok((0, false));
        }
        let mut whole = MAGIC.len();
        let digest_bytes = HashAlgo::Xxh3_64.hex_len();
        loop {
            let mut head = [0; 4];
            if !read_whole(&mut file, &mut head)? {
                return Ok((whole as u64, false));
            }
            let shard = u32::from_le_bytes(head) as usize;
            let Some(size) = self.sizes.get(shard) else { return Ok((whole as u64, true)) };
            let mut record = head.to_vec();
            record.resize(head.len() + bytes_of(*size) + digest_bytes, 0);
            if !read_whole(&mut file, &mut record[head.len()..])? {
                return Ok((whole as u64, false));
            }
            let (content, digest) = record.split_at(record.len() - digest_bytes);
            if HashAlgo::Xxh3_64.hex(content).as_bytes() != digest {
                return Ok((whole as u64, true));
            }
            bits[shard] = Some(Bits::of_bytes(*size, content[head.len()..].to_vec()));
            whole += record.len();
        }
    }
}

/// Fills `into`; false at the end of the file.
fn read_whole(file: &mut impl Read, into: &mut [u8]) -> std::io::Result<bool> {
    match file.read_exact(into) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(pattern: &[bool]) -> Bits {
        let mut bits = Bits::new(pattern.len() as u64);
        pattern.iter().for_each(|bit| bits.push(*bit));
        bits
    }

    fn opened(folder: &Path) -> KeptAnswers {
        KeptAnswers::open(Some(folder.join("answers of a filter")), vec![3, 0, 9])
    }

    fn known(answers: &KeptAnswers) -> [bool; 3] {
        [0, 1, 2].map(|shard| answers.has(shard))
    }

    #[test]
    fn answers_are_kept_shard_by_shard() {
        let folder = tempfile::tempdir().expect("folder");
        let first = opened(folder.path());
        assert_eq!(known(&first), [false; 3]);
        let (three, nine) =
            (bits(&[true, false, true]), bits(&[false, true, false, true, true, false, true, true, true]));
        first.add(2, nine.clone()).expect("added");
        let second = opened(folder.path());
        assert_eq!(known(&second), [false, false, true]);
        second.add(0, three.clone()).expect("added");
        first.read_again();
        assert_eq!(known(&first), [true, false, true]);
        assert_eq!(opened(folder.path()).finish(), [Some(three), None, Some(nine.clone())]);
        assert_eq!((nine.get(8), nine.get(0), nine.get(9)), (true, false, false));
        assert!(first.add(1, nine).is_err());
    }

    #[test]
    fn a_file_that_is_cut_off_or_damaged_anywhere_costs_its_last_shards_and_continues() {
        let folder = tempfile::tempdir().expect("folder");
        let (three, nine) = (bits(&[true, false, true]), bits(&[true; 9]));
        let answers = opened(folder.path());
        answers.add(2, nine.clone()).expect("added");
        answers.add(0, three.clone()).expect("added");
        let path = folder.path().join("answers of a filter").join(BASENAME);
        let whole = std::fs::read(&path).expect("file");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            for bytes in [&whole[..at], &damaged] {
                std::fs::write(&path, bytes).expect("written");
                let continued = opened(folder.path());
                for (shard, bits) in [(2, &nine), (0, &three)] {
                    if !continued.has(shard) {
                        continued.add(shard, bits.clone()).expect("added");
                    }
                }
                assert_eq!(
                    opened(folder.path()).finish(),
                    [Some(three.clone()), None, Some(nine.clone())],
                    "byte {at}"
                );
            }
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_keeps_nothing() {
        let answers = KeptAnswers::open(Some(PathBuf::from("/proc/none")), vec![1]);
        answers.add(0, bits(&[true])).expect("added");
        assert!(answers.has(0));
    }
}
