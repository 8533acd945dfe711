//! Compressed object of a store, unpacked while it is read from front to back: a survey needs neither the memory nor
//! the disk for the content.

use super::remote_file::RemoteFile;
use crate::error::{Error, Result};
use crate::format::compression::{ForwardFile, WINDOW_BYTES_MAX};
use crate::format::{Compression, FileReader, ReadAt};
use crate::store::{Remote, Version};
use forebay_core::flow::Budget;
use std::io::BufReader;

/// Packed bytes that a decoder gets at once.
const PACKED_BYTES: usize = 256 << 10;

/// Memory for the windows of all files that are unpacked at the same time. A larger window is unpacked alone.
const WINDOWS_BYTES: u64 = 512 << 20;

/// Bytes at the front of a file that declare its window.
const FRONT_BYTES: u64 = 18;

/// Bounds of the files that are unpacked at the same time.
pub(super) struct Unpacking {
    windows: Budget,
    window_bytes_max: u64,
}

/// Most bytes of a compressed file, and of its content.
#[derive(Clone, Copy)]
pub(super) struct UnpackLimits {
    pub(super) packed_bytes: u64,
    pub(super) raw_bytes: u64,
}

/// Outcome of a reader of an unpacked file, with the sizes of the file.
pub(super) struct Unpacked<T> {
    pub(super) value: T,
    pub(super) packed_bytes: u64,
    pub(super) raw_bytes: u64,
    pub(super) version: Option<Version>,
}

impl Unpacking {
    /// Bounds by the option `memory`: no window is larger.
    pub(super) fn new(memory: Option<u64>) -> Self {
        let window_bytes_max = memory.unwrap_or(u64::MAX).min(WINDOW_BYTES_MAX);
        Self { windows: Budget::new(WINDOWS_BYTES.min(window_bytes_max)), window_bytes_max }
    }

    /// Calls `use_file` with the content of the object `name` of `remote`, a [`ForwardFile`], and then reads it to its
    /// end. `progress` is called for each part that is fetched.
    ///
    /// # Errors
    ///
    /// Errors of the store and of `use_file`; [`crate::ErrorKind::Format`] for an object that cannot be unpacked or is
    /// above the `limits`, and [`crate::ErrorKind::Unsupported`] for one with a window above the option `memory`.
    pub(super) fn read<T>(
        &self,
        (remote, name): (&Remote, &str),
        compression: Compression,
        limits: UnpackLimits,
        progress: &dyn Fn(),
        use_file: impl FnOnce(&dyn ReadAt) -> Result<T>,
    ) -> Result<Unpacked<T>> {
        let packed = RemoteFile::open(remote, name, progress)?;
        let packed_bytes = packed.bytes();
        if packed_bytes > limits.packed_bytes {
            let most = limits.packed_bytes;
            let why =
                format!("a compressed file of {packed_bytes} bytes; at most {most} are read: write smaller files");
            return Err(Error::format(why));
        }
        let mut front = [0; FRONT_BYTES as usize];
        let front = &mut front[..packed_bytes.min(FRONT_BYTES) as usize];
        packed.read_at(front, 0)?;
        // A window that is too large is an error of the decoder.
        let window_bytes = compression.window_bytes(front).min(self.window_bytes_max);
        let _memory = self.windows.reserve(window_bytes)?;
        let reader = BufReader::with_capacity(PACKED_BYTES, FileReader::new(&packed));
        let file = ForwardFile::new(compression, reader, self.window_bytes_max, limits.raw_bytes)?;
        let value = use_file(&file)?;
        // The end of the stream has its length and its checksum.
        let raw_bytes = file.read_to_end()?;
        Ok(Unpacked { value, packed_bytes, raw_bytes, version: packed.version().cloned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::error::ErrorKind;
    use crate::format::lines::{LineForm, survey};
    use crate::format::tar::count_fields;
    use crate::format::tfrecord;
    use crate::stats::Stats;
    use crate::store::{StoreConfig, Stores};
    use crate::sync::Arc;

    const NO_LIMITS: UnpackLimits = UnpackLimits { packed_bytes: u64::MAX, raw_bytes: u64::MAX };

    /// Reads `packed` as a file of a store.
    fn read<T>(
        packed: &[u8],
        compression: Compression,
        limits: UnpackLimits,
        use_file: impl FnOnce(&dyn ReadAt) -> Result<T>,
    ) -> Result<Unpacked<T>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), packed).unwrap();
        let stores = Stores::new(StoreConfig::default(), &Arc::new(Stats::default()), Clock::system()).unwrap();
        let remote = stores.open(&folder.path().display().to_string()).unwrap();
        Unpacking::new(None).read((&remote, "a"), compression, limits, &|| (), use_file)
    }

    fn packed(raw: &[u8]) -> Vec<u8> {
        Compression::GZIP.compress(raw).unwrap()
    }

    #[test]
    fn a_survey_of_an_unpacked_file_has_the_same_result_as_one_of_the_content() {
        // Larger than all windows, and with ends at any offset in them.
        let mut text = Vec::new();
        let mut tar = tar::Builder::new(Vec::new());
        let mut records = Vec::new();
        for number in 0..700_u32 {
            let bytes = 1 + number as usize * 37;
            text.extend(format!("{{\"n\": {number}, \"t\": \"{}\"}}\n", "x".repeat(bytes)).into_bytes());
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes as u64);
            tar.append_data(&mut header, format!("{number}.bin"), &*vec![1; bytes]).unwrap();
            tfrecord::append(&vec![2; bytes], &mut records);
        }
        let tar = tar.into_inner().unwrap();
        for shortened in [0, 1, 700] {
            let text = &text[..text.len() - shortened];
            let found = read(&packed(text), Compression::GZIP, NO_LIMITS, |file| survey(file, LineForm::Json, 1 << 20));
            let found = found.unwrap();
            assert_eq!(found.value, survey(&text, LineForm::Json, 1 << 20).unwrap());
            assert_eq!(found.raw_bytes, text.len() as u64);
        }
        let found = read(&packed(&tar), Compression::GZIP, NO_LIMITS, |file| count_fields(file)).unwrap();
        assert_eq!((found.value, found.raw_bytes), (count_fields(&tar).unwrap(), tar.len() as u64));
        let found = read(&packed(&records), Compression::GZIP, NO_LIMITS, |file| tfrecord::count_features(file));
        let found = found.unwrap();
        assert_eq!((found.value, found.raw_bytes), (tfrecord::count_features(&records).unwrap(), records.len() as u64));
        for cut in [1, 100, 20_000] {
            let part = &records[..records.len() - cut];
            let e = read(&packed(part), Compression::GZIP, NO_LIMITS, |file| tfrecord::count_features(file));
            assert_eq!(e.err().map(|e| e.kind()), Some(ErrorKind::Format), "{cut}");
        }
    }

    #[test]
    fn a_long_record_and_a_short_file_are_read() {
        let mut records = Vec::new();
        tfrecord::append(&vec![3; 9 << 20], &mut records);
        tfrecord::append(b"", &mut records);
        let found = read(&packed(&records), Compression::GZIP, NO_LIMITS, |file| tfrecord::count_features(file));
        assert_eq!(found.unwrap().value.samples, 2);
        for text in ["", "{}", "\n"] {
            let found =
                read(&packed(text.as_bytes()), Compression::GZIP, NO_LIMITS, |file| survey(file, LineForm::Json, 1));
            assert_eq!(found.unwrap().value.counts.records, u64::from(text == "{}"), "{text:?}");
        }
    }

    #[test]
    fn damage_and_limits_are_errors_wherever_they_are_noticed() {
        let raw = [&b"{\"a\": 1}\n"[..], &vec![b'\n'; 8 << 20]].concat();
        let whole = packed(&raw);
        let survey = |file: &dyn ReadAt| survey(file, LineForm::Json, 1 << 20);
        let unread = |_: &dyn ReadAt| Ok(());
        let cut = &whole[..whole.len() - 4];
        for e in [
            read(cut, Compression::GZIP, NO_LIMITS, survey).err(),
            read(cut, Compression::GZIP, NO_LIMITS, unread).err(),
            read(&whole, Compression::ZSTD, NO_LIMITS, survey).err(),
        ] {
            let e = e.unwrap();
            assert!(e.kind() == ErrorKind::Format && e.to_string().contains("damaged"), "{e}");
        }
        let limits = UnpackLimits { raw_bytes: (8 << 20) - 1, ..NO_LIMITS };
        let e = read(&whole, Compression::GZIP, limits, survey).err().unwrap();
        assert!(e.to_string().contains("holds more than 8388607 bytes"), "{e}");
        let limits = UnpackLimits { packed_bytes: 10, ..NO_LIMITS };
        let e = read(&whole, Compression::GZIP, limits, unread).err().unwrap();
        assert!(e.to_string().contains("at most 10 are read"), "{e}");
    }
}
