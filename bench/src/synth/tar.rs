//! Tar files in WebDataset's format: `00000000.jpg` and `00000000.cls` in sequence.

use super::files::Sample;
use crate::folder::make_whole;
use forebay_loader::{Error, Result};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Headers and contents are padded to multiples of this many bytes.
pub(crate) const BLOCK: u64 = 512;

/// Writes all samples into `folder`, each file at most `shard_bytes_max` long unless one sample is longer. The folder
/// appears when it is complete; an existing one is kept.
pub(super) fn write(folder: &Path, samples: &[Sample], shard_bytes_max: u64) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    make_whole(folder, |part| {
        let failed = |e| Error::from_io(e, "the tar files cannot be written").with("folder", folder.display());
        fs::create_dir_all(part).map_err(failed)?;
        write_all(part, samples, shard_bytes_max).map_err(failed)
    })
}

fn write_all(folder: &Path, samples: &[Sample], shard_bytes_max: u64) -> io::Result<()> {
    let mut open: Option<(BufWriter<File>, u64)> = None;
    let mut shards = 0;
    for (i, sample) in samples.iter().enumerate() {
        let class = sample.class.to_string();
        let bytes = 3 * BLOCK + sample.bytes.next_multiple_of(BLOCK);
        if open.as_ref().is_none_or(|(_, used)| used + bytes > shard_bytes_max)
            && let Some((full, _)) =
                open.replace((BufWriter::new(File::create(folder.join(format!("shard-{shards:06}.tar")))?), 0))
        {
            finish(full)?;
        }
        let (out, used) = open.as_mut().expect("just opened");
        if *used == 0 {
            shards += 1;
        }
        member(out, &format!("{i:08}.jpg"), &fs::read(&sample.path)?)?;
        member(out, &format!("{i:08}.cls"), class.as_bytes())?;
        *used += bytes;
    }
    open.map_or(Ok(()), |(last, _)| finish(last))
}

/// Ends the archive with two empty blocks.
pub(crate) fn finish(mut out: impl Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK as usize])?;
    out.flush()
}

/// Writes a file of the archive.
pub(crate) fn member(out: &mut impl Write, name: &str, content: &[u8]) -> io::Result<()> {
    out.write_all(&header(name, content.len() as u64))?;
    out.write_all(content)?;
    let padding = (content.len() as u64).next_multiple_of(BLOCK) - content.len() as u64;
    out.write_all(&[0; BLOCK as usize][..padding as usize])
}

/// Returns a POSIX ustar header without owner and time, so that the same samples make the same bytes.
fn header(name: &str, bytes: u64) -> [u8; BLOCK as usize] {
    let mut block = [0u8; BLOCK as usize];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{bytes:011o}\0"));
    put(136, "00000000000\0");
    // The checksum is computed with spaces in its own field.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\0");
    put(263, "00");
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn tar_files_list_with_the_systems_tar_and_keep_their_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut samples = Vec::new();
        for i in 0..5usize {
            let path = folder.path().join(format!("{i}"));
            fs::write(&path, vec![i as u8; 700 * i]).expect("a file");
            samples.push(Sample { path, class: i as i64, bytes: 700 * i as u64 });
        }
        let tar = folder.path().join("tar");
        write(&tar, &samples, 9000).expect("written");
        let list = |n: u32| {
            let file = tar.join(format!("shard-{n:06}.tar"));
            assert!(file.metadata().expect("there").len() <= 9000 + 2 * BLOCK);
            let out = Command::new("tar").arg("tf").arg(file).output().expect("tar");
            String::from_utf8(out.stdout).expect("names").split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            list(0),
            ["00000000.jpg", "00000000.cls", "00000001.jpg", "00000001.cls", "00000002.jpg", "00000002.cls"]
        );
        assert_eq!(list(1), ["00000003.jpg", "00000003.cls", "00000004.jpg", "00000004.cls"]);
        let show = Command::new("tar").arg("xOf").arg(tar.join("shard-000001.tar")).arg("00000004.cls").output();
        assert_eq!(show.expect("tar").stdout, b"4");
    }
}
