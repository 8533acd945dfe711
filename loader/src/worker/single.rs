//! A single shard on local disk.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{FileInfo, Layout, Shard};
use crate::io::read_up_to_at;
use crate::sync::Arc;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A shard on local disk, without a data set. It is not fetched, unpacked, checked or kept open: each read opens the
/// files again.
#[derive(Debug)]
pub struct SingleShard {
    shard: Shard,
    table: PathBuf,
    data: PathBuf,
}

impl SingleShard {
    /// Makes a reader of `shard`, with raw files below `folder`.
    pub fn new(shard: Shard, folder: &Path) -> Self {
        let path = |file: &FileInfo| folder.join(&*file.basename);
        Self { table: path(shard.table_file()), data: path(&shard.raw_data), shard }
    }

    /// Format and columns.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.shard.layout
    }

    /// Reads sample `index` into `into`, which grows as needed. Returns its length in bytes.
    ///
    /// # Errors
    ///
    /// `NotFound` when a file is missing or the shard has no such sample; `Format`, with file and sample, when a file
    /// ends too early; the errors of the file system.
    pub fn read(&self, index: u64, into: &mut Vec<u8>) -> Result<usize> {
        if index >= self.shard.samples {
            let samples = self.shard.samples;
            return Err(Error::new(ErrorKind::NotFound, "there is no such sample in the shard")
                .with("sample", index)
                .with("samples", samples));
        }
        if !self.shard.layout.format.has_table() {
            let message = "the file has no table of its samples: read it as a data set, with a Loader";
            return Err(Error::new(ErrorKind::Unsupported, message).with("path", self.data.display()));
        }
        let table = open(&self.table)?;
        let mut pair = [0; 8];
        if read_up_to_at(&table, &mut pair, 4 + 4 * index)? < pair.len() {
            let path = self.table.display();
            return Err(Error::format(format!("{path} ends before the offsets of sample {index}")));
        }
        let [b0, b1, b2, b3, e0, e1, e2, e3] = pair;
        let (begin, end) = (u32::from_le_bytes([b0, b1, b2, b3]), u32::from_le_bytes([e0, e1, e2, e3]));
        let bytes = end.saturating_sub(begin) as usize;
        let data = if self.table == self.data { table } else { open(&self.data)? };
        // A damaged table may contain any size: memory is allocated only for bytes that the file has.
        let there = rustix::fs::fstat(&data).map_err(|errno| Error::from_io(errno.into(), "a shard cannot be read"))?;
        let found = u64::try_from(there.st_size).unwrap_or(0).saturating_sub(begin.into());
        if found < bytes as u64 {
            let (path, at) = (self.data.display(), u64::from(begin) + found);
            return Err(Error::format(format!("{path} ends within sample {index}, at byte {at} of {end}")));
        }
        if into.len() < bytes {
            into.resize(bytes, 0);
        }
        if read_up_to_at(&data, &mut into[..bytes], begin.into())? < bytes {
            return Err(Error::format(format!("{} shrinks while sample {index} is read", self.data.display())));
        }
        Ok(bytes)
    }
}

fn open(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
        .map_err(|errno| Error::from_io(errno.into(), "a shard cannot be opened").with("path", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::writer::{LocalDir, Options, Writer};
    use crate::format::{Encoding, Value};

    #[test]
    fn samples_are_read_while_the_file_contains_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = Layout::mds([("text".to_owned(), Encoding::Str)]).expect("a layout");
        let into = LocalDir::create(folder.path(), false).expect("a folder");
        let mut writer = Writer::new(layout, Box::new(into), Options::default()).expect("a writer");
        for number in 0..3 {
            writer.write(&[Value::Str(format!("sample {number}").into())]).expect("written");
        }
        let shard = writer.finish().expect("an index").shards.remove(0);
        let path = folder.path().join(&*shard.raw_data.basename);
        let single = SingleShard::new(shard, folder.path());
        let mut buffer = Vec::new();
        let bytes = single.read(2, &mut buffer).expect("there");
        assert_eq!(&buffer[4..bytes], b"sample 2");
        assert_eq!(single.read(3, &mut buffer).expect_err("no such sample").kind(), ErrorKind::NotFound);

        let whole = std::fs::read(&path).expect("a shard");
        for (length, message) in [(whole.len() - 1, "ends within sample 2"), (9, "ends before the offsets of sample 2")]
        {
            std::fs::write(&path, &whole[..length]).expect("cut off");
            let error = single.read(2, &mut buffer).expect_err("cut off");
            assert!(error.kind() == ErrorKind::Format && error.to_string().contains(message), "{error}");
        }
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(single.read(2, &mut buffer).expect_err("gone").kind(), ErrorKind::NotFound);
    }
}
