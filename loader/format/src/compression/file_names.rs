//! Compression by the extensions of files and by HTTP headers.

use super::Compression;
use super::codec::{Codec, Names, is_streamed};
use super::registry;
use crate::{Error, ErrorKind, Result};

/// Extensions of compressed files that cannot be read.
const UNREADABLE: [&str; 8] = ["xz", "txz", "lzma", "lz4", "lz", "z", "zip", "7z"];

/// Extensions of compressed tars without `.tar` that cannot be read.
const UNREADABLE_TARS: [&str; 1] = ["txz"];

impl Compression {
    /// Returns the compression that the extension of a file name declares, without the dot and in any case; `None` if
    /// it is not the extension of a compressed file.
    ///
    /// ```
    /// use forebay_format::Compression;
    ///
    /// assert_eq!(Compression::of_extension("tgz")?.unwrap().to_string(), "gz");
    /// assert_eq!(Compression::of_extension("json")?, None);
    /// # Ok::<(), forebay_format::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for the extension of a compression that cannot be unpacked as it is read.
    pub fn of_extension(extension: &str) -> Result<Option<Self>> {
        let extension = extension.to_ascii_lowercase();
        let found = registry::all().find(|codec| has_extension(codec.names(), &extension));
        match found {
            Some(codec) if is_streamed(codec) => Ok(Some(Self { codec, level: None })),
            None if !UNREADABLE.contains(&extension.as_str()) => Ok(None),
            _ => {
                let why = format!("files that are compressed as .{extension} cannot be unpacked");
                Err(Error::new(ErrorKind::Unsupported, why))
            }
        }
    }

    /// Returns the compression with the name `encoding` in a `Content-Encoding`, if it can be unpacked.
    pub fn of_encoding(encoding: &str) -> Option<Self> {
        let codec = registry::all().find(|codec| codec.names().encodings.contains(&encoding))?;
        Some(Self { codec, level: None })
    }
}

/// Returns true if `extension` declares a compressed tar by itself, as `tgz` does.
pub fn is_tar_extension(extension: &str) -> bool {
    let extension = extension.to_ascii_lowercase();
    let mut names = registry::all().map(Codec::names);
    names.any(|names| names.tar_extensions.contains(&&*extension)) || UNREADABLE_TARS.contains(&&*extension)
}

/// Returns `name` without the extension of a compressed file, if it has one.
pub fn without_extension(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !matches!(Compression::of_extension(extension), Ok(None)) => stem,
        _ => name,
    }
}

/// Extensions of files that can be unpacked as they are read, each behind `prefix`, as a list in a sentence.
pub fn readable_extensions(prefix: &str) -> String {
    let streamed = registry::all().filter(|codec| is_streamed(*codec));
    let extensions: Vec<_> = streamed.filter_map(|codec| codec.names().extensions.first()).collect();
    let listed: Vec<_> = extensions.iter().map(|extension| format!("{prefix}.{extension}")).collect();
    match listed.split_last() {
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn has_extension(names: &Names, extension: &str) -> bool {
    names.extensions.contains(&extension) || names.tar_extensions.contains(&extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_declare_a_compression_in_any_case() {
        for (extension, name) in [("gz", "gz"), ("GZIP", "gz"), ("tgz", "gz"), ("zst", "zstd"), ("tbz", "bz2")] {
            assert_eq!(Compression::of_extension(extension).unwrap(), Compression::parse(name).ok(), "{extension}");
        }
        for extension in ["", "tar", "json", "litdata", "zlib"] {
            assert_eq!(Compression::of_extension(extension).unwrap(), None, "{extension}");
        }
        for extension in ["xz", "Z", "zip", "snappy"] {
            assert_eq!(Compression::of_extension(extension).unwrap_err().kind(), ErrorKind::Unsupported, "{extension}");
        }
    }

    #[test]
    fn no_two_families_share_a_name() {
        let names = |of: fn(&Names) -> Vec<&'static str>| -> Vec<&str> {
            registry::all().flat_map(|codec| of(codec.names())).collect()
        };
        for names in [
            names(|names| vec![names.name]),
            names(|names| [names.extensions, names.tar_extensions].concat()),
            names(|names| names.encodings.to_vec()),
        ] {
            let distinct: std::collections::HashSet<_> = names.iter().collect();
            assert_eq!(distinct.len(), names.len(), "{names:?}");
        }
    }

    #[test]
    fn names_lose_the_extension_of_a_compression_alone() {
        for (name, raw) in [("a.csv.gz", "a.csv"), ("a.csv.XZ", "a.csv"), ("a.csv", "a.csv"), ("gz", "gz")] {
            assert_eq!(without_extension(name), raw);
        }
        assert!(is_tar_extension("TGZ") && is_tar_extension("txz") && !is_tar_extension("gz"));
        assert_eq!(readable_extensions(".tar"), ".tar.br, .tar.bz2, .tar.gz or .tar.zst");
    }
}
