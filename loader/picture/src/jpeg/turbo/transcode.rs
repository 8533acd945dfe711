//! Lossless conversion from progressive to baseline: the same coefficients in a different order.

use std::ffi::c_int;

use turbojpeg_sys as tj;

use super::{Header, Instance, Turbo, library_output};
use crate::geometry::{PIXELS_MAX, Region, Size};
use crate::jpeg::JpegDecoder;
use crate::jpeg::scan_limit::scans_max;
use crate::pixels::Pixels;
use forebay_core::error::Result;

/// Returns the progressive JPEG file `bytes` as a baseline file, with its own Huffman tables and all markers (EXIF,
/// colour profiles, comments). It decodes to the same pixels. Returns `None`, so that the file stays as it is, if it is
/// not progressive, is damaged or too odd to be rewritten, or would decode to different pixels, because its last scans
/// are missing and decoders smooth such pictures.
///
/// # Errors
///
/// No memory.
pub fn to_baseline(bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut turbo = Turbo::new()?;
    let Ok(Header { size, .. }) = turbo.header(bytes) else { return Ok(None) };
    let is_progressive = turbo.instance.get(tj::TJPARAM_TJPARAM_PROGRESSIVE) == 1;
    // All coefficients are in memory, with six bytes per pixel, or eight for CMYK.
    if !is_progressive || size.pixels() > PIXELS_MAX {
        return Ok(None);
    }
    let Some(baseline) = transform(bytes, size)? else { return Ok(None) };
    match (pixels(bytes, size), pixels(&baseline, size)) {
        (Ok(before), Ok(after)) if before.rgb() == after.rgb() => Ok(Some(baseline)),
        _ => {
            log::debug!("a progressive JPEG is not rewritten: a baseline file decodes to different pixels");
            Ok(None)
        }
    }
}

fn pixels(bytes: &[u8], size: Size) -> Result<Pixels> {
    let mut pixels = Pixels::default();
    Turbo::new()?.decode(bytes, Region::all(size), &mut pixels)?;
    Ok(pixels)
}

/// Returns the same coefficients as a baseline file, or `None` if the library reports an error or a warning.
fn transform(bytes: &[u8], size: Size) -> Result<Option<Vec<u8>>> {
    // A new instance: one that has read a header would have skipped markers.
    let mut instance = Instance::new(tj::TJINIT_TJINIT_TRANSFORM)?;
    instance.set(tj::TJPARAM_TJPARAM_SCANLIMIT, scans_max(size) as c_int)?;
    instance.set(tj::TJPARAM_TJPARAM_MAXPIXELS, PIXELS_MAX as c_int)?;
    // A file with any warning is left as it is.
    instance.set(tj::TJPARAM_TJPARAM_STOPONWARNING, 1)?;
    let transform = tj::tjtransform {
        r: tj::tjregion { x: 0, y: 0, w: 0, h: 0 },
        op: tj::TJXOP_TJXOP_NONE as c_int,
        options: tj::TJXOPT_OPTIMIZE as c_int,
        data: std::ptr::null_mut(),
        customFilter: None,
    };
    let file = library_output(|buffer, length| {
        // SAFETY: the handle is live (invariant of `Instance`), `bytes` is one slice, and there is one transform, one
        // buffer and one length; with a null buffer the library allocates and stores pointer and length.
        unsafe {
            tj::tj3Transform(
                instance.handle.as_ptr(),
                bytes.as_ptr(),
                bytes.len() as tj::size_t,
                1,
                buffer,
                length,
                &raw const transform,
            )
        }
    });
    if file.is_none() {
        log::debug!("a progressive JPEG cannot be rewritten: {}", instance.message());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::super::{RowIndexer, Subsampling, encode};
    use super::*;

    const SIZE: Size = Size { w: 75, h: 61 };

    fn file(subsampling: Subsampling, progressive: bool) -> Vec<u8> {
        let bytes = SIZE.w as usize * SIZE.h as usize * 3;
        let rgb: Vec<u8> = (0..bytes).map(|i| (i * i / 7 + i / 90) as u8).collect();
        encode(&rgb, SIZE, 88, subsampling, progressive).unwrap()
    }

    #[test]
    fn a_progressive_file_becomes_a_baseline_one_of_the_same_pixels_and_markers() {
        use Subsampling::{Grey, S411, S420, S422, S440, S444};
        for subsampling in [S444, S422, S420, S440, S411, Grey] {
            let mut progressive = file(subsampling, true);
            // After the start of the image: EXIF, a colour profile, a comment.
            let exif = b"\xff\xe1\0\x10Exif\0\0II*\0\x08\0\0\0";
            let profile = b"\xff\xe2\0\x15ICC_PROFILE\0\x01\x01abcde";
            let comment = b"\xff\xfe\0\x07hello";
            let markers = [&exif[..], profile, comment];
            progressive.splice(2..2, markers.concat());
            let baseline = to_baseline(&progressive).unwrap().unwrap();
            let [after, before] = [&baseline, &progressive].map(|bytes| pixels(bytes, SIZE).unwrap());
            assert_eq!(after.rgb(), before.rgb(), "{subsampling:?}");
            for marker in markers {
                assert!(baseline.windows(marker.len()).any(|w| w == marker), "{subsampling:?} {marker:?}");
            }
            assert!(!RowIndexer::default().append(&progressive, &mut Vec::new()));
            assert!(RowIndexer::default().append(&baseline, &mut Vec::new()), "{subsampling:?}");
        }
    }

    #[test]
    fn files_that_are_not_progressive_are_not_rewritten() {
        let progressive = file(Subsampling::S420, true);
        let cut = &progressive[..progressive.len() / 2];
        for bytes in [&file(Subsampling::S420, false)[..], cut, &progressive[..100], b"", b"no picture"] {
            assert_eq!(to_baseline(bytes).unwrap(), None);
        }
    }

    #[test]
    fn a_progressive_file_without_its_last_scans_is_not_rewritten() {
        // Decoders smooth a picture with only DC coefficients, unless the file is a baseline one.
        let whole = file(Subsampling::S420, true);
        let scans: Vec<usize> = (0..whole.len()).filter(|at| whole[*at..].starts_with(b"\xff\xda")).collect();
        assert!(scans.len() > 2, "{scans:?}");
        let mut first = whole[..scans[1]].to_vec();
        // The tables of the next scan are before it.
        first.extend(b"\xff\xd9");
        assert!(pixels(&first, SIZE).is_ok());
        assert!(transform(&first, SIZE).unwrap().is_some(), "the coefficients can be transformed");
        assert_eq!(to_baseline(&first).unwrap(), None);
    }

    #[test]
    fn a_large_picture_may_have_fewer_scans() {
        assert_eq!(scans_max(SIZE), 500);
        assert_eq!(scans_max(Size { w: 10_000, h: 10_000 }), 32);
    }
}
