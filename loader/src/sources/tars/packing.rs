//! Names of tars: their extensions, and the compression that these declare.

use crate::error::Result;
use crate::format::Compression;
use crate::format::compression::{is_tar_extension, readable_extensions};
use crate::sources::extension::ends_with;

/// Form of a tar file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// A tar as it is: samples are read where they are.
    Plain,
    /// A compressed tar, which is unpacked before a sample is read.
    Compressed(Compression),
}

impl Packing {
    /// Returns the form that a file's name declares; `None` if it is not the name of a tar. Case has no meaning.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a tar with a compression that cannot be read.
    pub fn of(name: &str) -> Result<Option<Self>> {
        let Some((stem, extension)) = name.rsplit_once('.') else { return Ok(None) };
        if extension.eq_ignore_ascii_case("tar") {
            return Ok(Some(Self::Plain));
        }
        if !is_tar_extension(extension) && !ends_with(stem, ".tar") {
            return Ok(None);
        }
        let compression = Compression::of_extension(extension)
            .map_err(|e| e.hinting(format!("Pack the tars as .tar, or as {}", readable_extensions(".tar"))))?;
        Ok(compression.map(Self::Compressed))
    }

    /// Returns true if `name` is a tar that is read as it is.
    pub fn is_plain(name: &str) -> bool {
        matches!(Self::of(name), Ok(Some(Self::Plain)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

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
            assert!(e.to_string().contains(".tar.gz or .tar.zst"), "{e}");
        }
    }
}
