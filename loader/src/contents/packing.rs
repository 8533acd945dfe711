//! Compression of objects, by their names.

use crate::format::Compression;
use crate::format::compression::readable_extensions;
use crate::{Error, ErrorKind, Result};

/// Compression of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// None: the object is read as it is.
    Plain,
    /// The compression that the extension of its name declares.
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
        Compression::of_extension(extension).map_err(|e| {
            let readable = readable_extensions("");
            e.hinting(format!("Compress them as {readable}, or pass compression=\"none\" if they are not compressed"))
        })
    }

    /// Returns the compression of an object that has `named` by its name, and is stored with the `encoding` instead of
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
        let compression = Compression::of_encoding(encoding).filter(|_| named.is_none());
        compression.map(Some).ok_or_else(|| {
            let why = format!("the object is sent with Content-Encoding: {encoding}, which cannot be unpacked here");
            Error::new(ErrorKind::Unsupported, why).hinting(
                "Store it without that header, or pass `compression` with the compression of the stored bytes, \
                 \"none\" to read them as they are",
            )
        })
    }
}
