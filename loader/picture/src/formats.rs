//! Table of the formats of picture files. A format is a file with a [`PictureFormat`], and a line here.
//!
//! BMP and the portable maps are decoded here: their pixels are in the files as they are, and crates for them round
//! colours of 16 bits in a different way than Pillow, or do not scale values. GIF and TIFF are decoded by crates.

mod bmp;
mod gif;
mod pnm;
mod tiff;
mod values;

use crate::format::PictureFormat;
use crate::png::Png;
use crate::webp::WebP;
use forebay_core::error::{Error, ErrorKind, Result};

/// All formats but JPEG. The first one that knows a file's first bytes decodes it.
static FORMATS: &[&dyn PictureFormat] = &[&Png, &WebP, &bmp::Bmp, &gif::Gif, &pnm::Pnm, &tiff::Tiff];

/// Formats that are recognised and not decoded: their names, and bytes of a file with their offset.
const UNDECODED: &[(&str, usize, &[u8])] = &[
    ("AVIF", 4, b"ftypavif"),
    ("AVIF", 4, b"ftypavis"),
    ("HEIC", 4, b"ftyphei"),
    ("HEIC", 4, b"ftyphev"),
    ("HEIF", 4, b"ftypmif1"),
    ("HEIF", 4, b"ftypmsf1"),
    ("JPEG 2000", 4, b"jP  \r\n\x87\n"),
    ("JPEG 2000", 0, b"\xff\x4f\xff\x51"),
    ("JPEG XL", 4, b"JXL \r\n\x87\n"),
    ("JPEG XL", 0, b"\xff\x0a"),
    ("JPEG XR", 0, b"II\xbc\x01"),
    ("OpenEXR", 0, b"\x76\x2f\x31\x01"),
    ("PDF", 0, b"%PDF-"),
    ("Photoshop", 0, b"8BPS"),
    ("SVG", 0, b"<svg"),
    ("SVG", 0, b"<?xml"),
    ("an icon (ICO)", 0, b"\0\0\x01\0"),
    ("an HTML page", 0, b"<!DOCTYPE html"),
    ("an HTML page", 0, b"<html"),
];

/// Returns the format of a file that starts as `bytes` do.
///
/// # Errors
/// `Decode` for an empty file; `Unsupported` for files of further formats, with the name of the format if it is known.
pub fn find(bytes: &[u8]) -> Result<&'static dyn PictureFormat> {
    if let Some(format) = FORMATS.iter().find(|format| format.is_start(bytes)) {
        return Ok(*format);
    }
    if bytes.is_empty() {
        return Err(Error::decode("the picture is empty"));
    }
    let known: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
    let is_other =
        |(_, at, start): &&(&str, usize, &[u8])| bytes.get(*at..).is_some_and(|rest| rest.starts_with(start));
    let other = UNDECODED.iter().find(is_other).map(|(name, ..)| *name);
    let message = match other {
        Some(name) => format!(
            "the file is {name}, which is not decoded: convert it to JPEG, PNG or WebP, or read it as Bytes and decode \
             it in `map`, as by Pillow"
        ),
        None => format!("the file is in none of the supported picture formats: JPEG, {}", known.join(", ")),
    };
    let error = Error::new(ErrorKind::Unsupported, message);
    Err(if other.is_some() { error } else { error.with("starts", bytes[..bytes.len().min(12)].escape_ascii()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_that_is_not_decoded_is_named() {
        for (bytes, name) in [
            (&b"\0\0\0\x20ftypavif\0\0\0\0"[..], "AVIF"),
            (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC"),
            (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
            (b"\xff\x4f\xff\x51\0\x2f", "JPEG 2000"),
            (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
            (b"\xff\x0a\x01", "JPEG XL"),
            (b"<svg xmlns=", "SVG"),
        ] {
            let error = find(bytes).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(&format!("the file is {name}, which")), "{error}");
        }
        let error = find(b"no picture").err().unwrap();
        assert!(
            error.to_string().contains("none of the supported picture formats") && error.to_string().contains("PNG"),
            "{error}"
        );
        assert_eq!(find(b"").err().unwrap().kind(), ErrorKind::Decode);
    }

    #[test]
    fn formats_are_found_by_their_first_bytes() {
        for (bytes, name) in [
            (&crate::png::SIGNATURE[..], "PNG"),
            (b"RIFF\0\0\0\0WEBPVP8 ", "WebP"),
            (b"BM", "BMP"),
            (b"GIF89a", "GIF"),
            (b"II*\0", "TIFF"),
        ] {
            assert_eq!(find(bytes).unwrap().name(), name);
        }
    }
}
