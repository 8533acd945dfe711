//! Answers of the shards of a stream, and their file.
//!
//! The file has a record for each shard that was read, appended when the shard is done. So a pass that was killed
//! continues, and shards that one loader does not need are added later. Its folder has the name of a digest
//! of filter and data, hence answers for different data or of a different filter are never taken. A record that is
//! damaged ends the file.

use super::answer::{Bits, bytes_of};
use super::answers::Answers;
use crate::error::{Error, Result};
use crate::format::HashAlgo;
use crate::sync::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name of the file.
const BASENAME: &str = "answers";

/// First bytes of the file; the number is the version of its format.
const MAGIC: &[u8] = b"forebay filter 1\n";

/// Answers of the shards of a stream, as far as they are known.
#[derive(Debug)]
pub(super) struct KeptAnswers {
    /// Folder of the file, if there is room for one.
    folder: Option<PathBuf>,
    state: Mutex<AnswersState>,
}

#[derive(Debug)]
struct AnswersState {
    answers: Answers,
    /// Records that have been read.
    read: ReadPart,
    file: AnswerFile,
}

/// Part of the file that has been read: its device and inode, and the bytes of its whole records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ReadPart {
    file: Option<(u64, u64)>,
    bytes: u64,
}

/// The file for new records.
#[derive(Debug)]
enum AnswerFile {
    /// Opened with the first record. It is cut off after the records that were read if this process alone writes.
    Closed {
        is_alone: bool,
    },
    Open(File),
    /// It cannot be written.
    Failed,
}

impl KeptAnswers {
    /// Reads the answers that are kept in `folder`, for shards with these numbers of bits.
    ///
    /// # Errors
    ///
    /// `Full` without memory.
    pub(super) fn open(folder: Option<PathBuf>, bits: &[u64]) -> Result<Self> {
        let answers = Answers::new(bits)?;
        let (read, file) = (ReadPart::default(), AnswerFile::Closed { is_alone: false });
        let kept = Self { folder, state: Mutex::new(AnswersState { answers, read, file }) };
        kept.read_again();
        Ok(kept)
    }

    /// Folder of the file.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Reads the records that the remaining processes have added since the last call.
    pub(super) fn read_again(&self) {
        let Some(path) = self.path() else { return };
        let mut state = self.state.lock();
        match self.read_new(&path, &mut state) {
            Ok(false) => {}
            Ok(true) => log::warn!("{} has a damaged record: its shards are read again", path.display()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => log::warn!("answers to a filter cannot be read: {}: {e}", path.display()),
        }
    }

    /// Lets this process alone write the file: it holds the lock of the folder. The part that was not read may be cut
    /// off.
    pub(super) fn write_alone(&self) {
        let file = &mut self.state.lock().file;
        if let AnswerFile::Closed { is_alone } = file {
            *is_alone = true;
        }
    }

    /// True if the answer of `shard` is known.
    pub(super) fn has(&self, shard: u32) -> bool {
        self.state.lock().answers.has(shard)
    }

    /// Adds the answer of `shard`.
    ///
    /// # Errors
    ///
    /// `Internal` for a different number of samples than the shard has.
    pub(super) fn add(&self, shard: u32, bits: Bits) -> Result<()> {
        let mut state = self.state.lock();
        if state.answers.bits_of(shard) != Some(bits.len()) {
            return Err(Error::internal("an answer has more or fewer samples than its shard"));
        }
        if let Err(e) = self.append(&mut state, shard, &bits) {
            state.file = AnswerFile::Failed;
            log::warn!("answers to a filter are not kept, so its columns are read again: {e}");
        }
        state.answers.set(shard, bits.bytes());
        Ok(())
    }

    /// Returns the answers of all shards.
    pub(super) fn finish(self) -> Answers {
        std::mem::take(&mut self.state.lock().answers)
    }

    fn path(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(BASENAME))
    }

    fn append(&self, state: &mut AnswersState, shard: u32, bits: &Bits) -> std::io::Result<()> {
        let (Some(folder), Some(path)) = (&self.folder, self.path()) else { return Ok(()) };
        let mut record = Vec::new();
        let file = match &mut state.file {
            AnswerFile::Failed => return Ok(()),
            AnswerFile::Open(file) => file,
            AnswerFile::Closed { is_alone } => {
                std::fs::create_dir_all(folder)?;
                let file = OpenOptions::new().append(true).create(true).open(path)?;
                let bytes = file.metadata()?.len();
                if bytes > state.read.bytes {
                    if !*is_alone {
                        // Several processes write, and a record after a damaged one is never read.
                        return Err(std::io::Error::other(
                            "the file has records that were not read, and locks do not work",
                        ));
                    }
                    // The rest is damaged, or a record of a process that was killed.
                    file.set_len(state.read.bytes)?;
                }
                if state.read.bytes == 0 {
                    record.extend(MAGIC);
                }
                state.file = AnswerFile::Open(file);
                let AnswerFile::Open(file) = &mut state.file else { return Ok(()) };
                file
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

    /// Reads the records of the file that have not been read. Returns true if one is damaged.
    fn read_new(&self, path: &Path, state: &mut AnswersState) -> std::io::Result<bool> {
        let mut file = File::open(path)?;
        let found = file.metadata()?;
        let id = Some((found.dev(), found.ino()));
        if state.read.file != id || found.len() < state.read.bytes {
            state.read = ReadPart { file: id, bytes: 0 };
        }
        if found.len() == state.read.bytes {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(state.read.bytes))?;
        let AnswersState { answers, read, .. } = state;
        records(BufReader::new(file), &mut read.bytes, answers)
    }
}

/// Reads records into `answers`, and adds the bytes of whole ones to `whole`, which the file begins after. Returns true
/// if one is damaged.
fn records(mut file: impl Read, whole: &mut u64, answers: &mut Answers) -> std::io::Result<bool> {
    if *whole == 0 {
        let mut magic = [0; MAGIC.len()];
        if !read_whole(&mut file, &mut magic)? || magic != MAGIC {
            return Ok(false);
        }
        *whole = MAGIC.len() as u64;
    }
    let digest_bytes = HashAlgo::Xxh3_64.hex_len();
    let mut record = Vec::new();
    loop {
        let mut head = [0; 4];
        if !read_whole(&mut file, &mut head)? {
            return Ok(false);
        }
        let shard = u32::from_le_bytes(head);
        let Some(bits) = answers.bits_of(shard) else { return Ok(true) };
        record.clear();
        record.extend(head);
        record.resize(head.len() + bytes_of(bits) + digest_bytes, 0);
        if !read_whole(&mut file, &mut record[head.len()..])? {
            return Ok(false);
        }
        let (content, digest) = record.split_at(record.len() - digest_bytes);
        if HashAlgo::Xxh3_64.hex(content).as_bytes() != digest {
            return Ok(true);
        }
        answers.set(shard, &content[head.len()..]);
        *whole += record.len() as u64;
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

    /// Answers of the shards with 3, 0 and 9 samples.
    fn all(of: [Option<&Bits>; 3]) -> Answers {
        let mut answers = Answers::new(&[3, 0, 9]).expect("room");
        for (shard, bits) in (0..).zip(of) {
            bits.inspect(|bits| answers.set(shard, bits.bytes()));
        }
        answers
    }

    fn opened(folder: &Path) -> KeptAnswers {
        let answers = KeptAnswers::open(Some(folder.join("answers of a filter")), &[3, 0, 9]).expect("room");
        answers.write_alone();
        answers
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
        let found = opened(folder.path()).finish();
        assert_eq!(found, all([Some(&three), None, Some(&nine)]));
        assert_eq!((found.bit(2, 8), found.bit(2, 0), found.bit(2, 9)), (true, false, false));
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
                assert_eq!(opened(folder.path()).finish(), all([Some(&three), None, Some(&nine)]), "byte {at}");
            }
        }
    }

    #[test]
    fn answers_that_were_read_are_not_read_again() {
        let folder = tempfile::tempdir().expect("folder");
        let (first, second) = (opened(folder.path()), opened(folder.path()));
        first.add(0, bits(&[true; 3])).expect("added");
        second.read_again();
        let path = folder.path().join("answers of a filter").join(BASENAME);
        let mut bytes = std::fs::read(&path).expect("file");
        // Damage of a record that was read changes nothing, since its bytes are not read.
        bytes[MAGIC.len()] ^= 0xff;
        std::fs::write(&path, &bytes).expect("written");
        first.add(2, bits(&[false; 9])).expect("added");
        second.read_again();
        assert_eq!(known(&second), [true, false, true]);
        assert_eq!(known(&opened(folder.path())), [false; 3]);
        // A different file under its name is read from its start.
        std::fs::rename(&path, path.with_extension("old")).expect("renamed");
        let third = opened(folder.path());
        third.add(2, bits(&[true; 9])).expect("added");
        second.read_again();
        assert!((0..9).all(|index| second.state.lock().answers.bit(2, index)));
    }

    #[test]
    fn without_a_lock_no_record_of_a_second_process_is_cut_off() {
        let folder = tempfile::tempdir().expect("folder");
        let unlocked = || KeptAnswers::open(Some(folder.path().join("answers of a filter")), &[3, 0, 9]).expect("room");
        let (first, second) = (unlocked(), unlocked());
        first.add(0, bits(&[true; 3])).expect("added");
        second.add(2, bits(&[true; 9])).expect("kept in memory");
        assert!(second.has(2));
        first.add(2, bits(&[true; 9])).expect("added");
        assert_eq!(known(&unlocked()), [true, false, true]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_keeps_nothing() {
        let answers = KeptAnswers::open(Some(PathBuf::from("/proc/none")), &[1]).expect("room");
        answers.add(0, bits(&[true])).expect("added");
        assert!(answers.has(0));
    }
}
