//! Names of tars: their extensions, and the compression that these declare.

use crate::error::{Error, ErrorKind, Result};
use crate::format::Compression;
use crate::sources::extension::ends_with;

/// Extensions of tars, with the name of the compression; `None` for a plain tar.
const EXTENSIONS: [(&str, Option<&str>); 10] = [
    (".tar", None),
    (".tar.gz", Some("gz")),
    (".tgz", Some("gz")),
    (".tar.zst", Some("zstd")),
    (".tar.zstd", Some("zstd")),
    (".tzst", Some("zstd")),
    (".tar.bz2", Some("bz2")),
    (".tbz2", Some("bz2")),
    (".tbz", Some("bz2")),
    (".tar.br", Some("br")),
];

/// Extensions of tars that cannot be read.
const UNREADABLE: [&str; 6] = [".tar.xz", ".txz", ".tar.lzma", ".tar.lz4", ".tar.lz", ".tar.z"];

/// Form of a tar file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// A tar as it is: samples are read in place.
    Plain,
    /// A compressed tar, which is unpacked before a sample is read.
    Compressed(Compression),
}

impl Packing {
    /// Returns the form that a file's name declares; `None` if it is not the name of a tar. Case has no meaning.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a tar of another compression.
    pub fn of(name: &str) -> Result<Option<Self>> {
        if let Some((_, compression)) = EXTENSIONS.iter().find(|(extension, _)| ends_with(name, extension)) {
            return Ok(Some(match compression {
                None => Self::Plain,
                Some(name) => Self::Compressed(Compression::parse(name)?),
            }));
        }
        match UNREADABLE.iter().find(|extension| ends_with(name, extension)) {
            Some(extension) => Err(Error::new(
                ErrorKind::Unsupported,
                format!("{extension} cannot be read: pack the tars as .tar, .tar.gz, .tar.zst, .tar.bz2 or .tar.br"),
            )),
            None => Ok(None),
        }
    }

    /// Returns true if the name is that of a tar that is read in place.
    pub fn is_plain(name: &str) -> bool {
        matches!(Self::of(name), Ok(Some(Self::Plain)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_of_a_tar_declares_its_compression() {
        for (name, compression) in [
            ("a/00000.tar", None),
            ("A.TAR", None),
            (".tar", None),
            ("x.tar.gz", Some("gz")),
            ("x.tgz", Some("gz")),
            ("x.tar.zst", Some("zstd")),
            ("x.Tar.BZ2", Some("bz2")),
            ("x.tar.br", Some("br")),
        ] {
            let packing = match compression {
                None => Packing::Plain,
                Some(text) => Packing::Compressed(Compression::parse(text).expect("known")),
            };
            assert_eq!(Packing::of(name).expect(name), Some(packing), "{name}");
        }
        for name in ["", "tar", "atar", "x.tar/", "x.tar.part", "x.tars", "ü.gz", "üar"] {
            assert_eq!(Packing::of(name).expect(name), None, "{name}");
        }
        for name in ["x.tar.xz", "x.txz", "x.tar.lz4", "x.tar.Z"] {
            let e = Packing::of(name).expect_err(name);
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.to_string().contains(".tar.gz, .tar.zst, .tar.bz2"), "{e}");
        }
    }
}
