//! Encoding of JPEGs.

use super::{Instance, library_output};
use crate::decode::geometry::Size;
use crate::error::{Error, Result};
use std::ffi::c_int;
use turbojpeg_sys as tj;

/// Resolution at which chroma is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the usual names")]
pub enum Subsampling {
    S444,
    S422,
    S420,
    S440,
    S411,
    S441,
    Grey,
}

impl Subsampling {
    /// Returns the library's number.
    fn code(self) -> c_int {
        (match self {
            Self::S444 => tj::TJSAMP_TJSAMP_444,
            Self::S422 => tj::TJSAMP_TJSAMP_422,
            Self::S420 => tj::TJSAMP_TJSAMP_420,
            Self::S440 => tj::TJSAMP_TJSAMP_440,
            Self::S411 => tj::TJSAMP_TJSAMP_411,
            Self::S441 => tj::TJSAMP_TJSAMP_441,
            Self::Grey => tj::TJSAMP_TJSAMP_GRAY,
        }) as c_int
    }
}

/// Compresses RGB pixels: for synthetic data sets and tests.
///
/// # Errors
/// Sizes that do not fit together, a quality outside of 1 to 100, no memory.
pub fn encode(rgb: &[u8], size: Size, quality: u8, subsampling: Subsampling, progressive: bool) -> Result<Vec<u8>> {
    if rgb.len() != size.w as usize * size.h as usize * 3 || rgb.is_empty() || size.w > 65_500 || size.h > 65_500 {
        return Err(Error::config("the pixels do not match the size of the JPEG to encode").with("bytes", rgb.len()));
    }
    let mut instance = Instance::new(tj::TJINIT_TJINIT_COMPRESS)?;
    instance.set(tj::TJPARAM_TJPARAM_QUALITY, c_int::from(quality))?;
    instance.set(tj::TJPARAM_TJPARAM_SUBSAMP, subsampling.code())?;
    instance.set(tj::TJPARAM_TJPARAM_PROGRESSIVE, c_int::from(progressive))?;
    let file = library_output(|buffer, length| {
        // SAFETY: the handle is live; `rgb` holds width * height * 3 bytes, checked above; with a null buffer the library
        // allocates and stores pointer and length.
        unsafe {
            tj::tj3Compress8(
                instance.handle.as_ptr(),
                rgb.as_ptr(),
                size.w as c_int,
                0,
                size.h as c_int,
                tj::TJPF_TJPF_RGB as c_int,
                buffer,
                length,
            )
        }
    });
    let failure = || Error::internal("libjpeg-turbo cannot compress the picture").with("reason", instance.message());
    file.ok_or_else(failure)
}

/// Compresses one sample per pixel for grey, otherwise three, of the given `bits`; a lossy picture has 12.
#[cfg(test)]
pub(in crate::decode::jpeg) fn encode_deep(
    samples: &[u16],
    size: Size,
    bits: u32,
    is_lossless: bool,
    subsampling: Subsampling,
) -> Vec<u8> {
    let (channels, format) = match subsampling {
        Subsampling::Grey => (1, tj::TJPF_TJPF_GRAY as c_int),
        _ => (3, tj::TJPF_TJPF_RGB as c_int),
    };
    assert_eq!(samples.len(), (size.w * size.h) as usize * channels);
    let mut instance = Instance::new(tj::TJINIT_TJINIT_COMPRESS).unwrap();
    instance.set(tj::TJPARAM_TJPARAM_QUALITY, 95).unwrap();
    instance.set(tj::TJPARAM_TJPARAM_LOSSLESS, c_int::from(is_lossless)).unwrap();
    instance.set(tj::TJPARAM_TJPARAM_PRECISION, bits as c_int).unwrap();
    instance.set(tj::TJPARAM_TJPARAM_SUBSAMP, subsampling.code()).unwrap();
    let (handle, w, h) = (instance.handle.as_ptr(), size.w as c_int, size.h as c_int);
    // In all three calls: SAFETY: the handle is live; there are width * height * channels samples, checked above; with
    // a null buffer the library allocates and stores pointer and length.
    let file = library_output(|buffer, length| match bits {
        2..=8 => {
            let bytes: Vec<u8> = samples.iter().map(|sample| *sample as u8).collect();
            // SAFETY: as above.
            unsafe { tj::tj3Compress8(handle, bytes.as_ptr(), w, 0, h, format, buffer, length) }
        }
        9..=12 => {
            let from = samples.as_ptr().cast();
            // SAFETY: as above.
            unsafe { tj::tj3Compress12(handle, from, w, 0, h, format, buffer, length) }
        }
        // SAFETY: as above.
        _ => unsafe { tj::tj3Compress16(handle, samples.as_ptr(), w, 0, h, format, buffer, length) },
    });
    file.unwrap_or_else(|| panic!("{}", instance.message()))
}
