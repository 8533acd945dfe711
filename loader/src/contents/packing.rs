//! Compression of objects, by their names.

use crate::format::Compression;
use crate::{Error, ErrorKind, Result};

/// Extensions of compressed files.
const EXTENSIONS: [(&str, &str); 10] = [
    ("gz", "gz"),
    ("gzip", "gz"),
    ("tgz", "gz"),
    ("zst", "zstd"),
    ("zstd", "zstd"),
    ("tzst", "zstd"),
    ("bz2", "bz2"),
    ("tbz", "bz2"),
    ("tbz2", "bz2"),
    ("br", "br"),
];

/// Encodings of objects that can be read.
const ENCODINGS: [(&str, &str); 6] =
    [("gzip", "gz"), ("x-gzip", "gz"), ("zstd", "zstd"), ("br", "br"), ("bzip2", "bz2"), ("x-bzip2", "bz2")];

/// Extensions of compressed files that cannot be read.
const UNREADABLE: [&str; 9] = ["xz", "txz", "lzma", "lz4", "lz", "z", "zip", "7z", "snappy"];

/// Compression of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// None: the object is read as it is.
    Plain,
    /// That of the extension of its name.
    #[default]
    ByName,
    /// This one, whatever its name.
    Of(Compression),
}

impl Packing {
    /// Returns the compression of the object at `url`. Case has no meaning in its name.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a name of a compression that cannot be read.
    pub fn compression(self, url: &str) -> Result<Option<Compression>> {
        match self {
            Self::Plain => return Ok(None),
            Self::Of(compression) => return Ok(Some(compression)),
            Self::ByName => {}
        }
        let name = url.rsplit('/').next().unwrap_or(url);
        let Some((_, extension)) = name.rsplit_once('.') else { return Ok(None) };
        let extension = extension.to_ascii_lowercase();
        if UNREADABLE.contains(&extension.as_str()) {
            let why = format!("files that are compressed as .{extension} cannot be unpacked");
            return Err(Error::new(ErrorKind::Unsupported, why).hinting(
                "Compress them as .gz, .zst, .bz2 or .br, or pass compression=\"none\" if they are not compressed",
            ));
        }
        let found = EXTENSIONS.iter().find(|(known, _)| *known == extension);
        found.map(|(_, name)| Compression::parse(name)).transpose()
    }

    /// Returns the compression of an object that has `named` by its name, and is stored with the `encoding` in place of
    /// it.
    ///
    /// # Errors
    ///
    /// `Unsupported` for an encoding that cannot be read, or one more than the name has.
    pub(super) fn compression_of_encoding(
        self,
        named: Option<Compression>,
        encoding: Option<&str>,
    ) -> Result<Option<Compression>> {
        let (Some(encoding), Self::ByName) = (encoding, self) else { return Ok(named) };
        let name = ENCODINGS.iter().find(|(known, _)| *known == encoding).filter(|_| named.is_none());
        name.map(|(_, name)| Compression::parse(name)).transpose()?.map(Some).ok_or_else(|| {
            let why = format!("the object is sent with Content-Encoding: {encoding}, which cannot be unpacked here");
            Error::new(ErrorKind::Unsupported, why).hinting(
                "Store it without that, or pass `compression` with that of the stored bytes, \"none\" to read them as \
                 they are",
            )
        })
    }
}
