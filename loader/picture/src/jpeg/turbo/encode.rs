//! Encoding of JPEGs.

use super::{Instance, library_output};
use crate::geometry::Size;
use forebay_core::error::{Error, Result};
use std::ffi::c_int;
use turbojpeg_sys as tj;

/// Resolution at which chroma is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the usual names")]
pub enum Subsampling {
    S444 = tj::TJSAMP_TJSAMP_444 as isize,
    S422 = tj::TJSAMP_TJSAMP_422 as isize,
    S420 = tj::TJSAMP_TJSAMP_420 as isize,
    S440 = tj::TJSAMP_TJSAMP_440 as isize,
    S411 = tj::TJSAMP_TJSAMP_411 as isize,
    S441 = tj::TJSAMP_TJSAMP_441 as isize,
    Grey = tj::TJSAMP_TJSAMP_GRAY as isize,
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
    instance.set(tj::TJPARAM_TJPARAM_SUBSAMP, subsampling as c_int)?;
    instance.set(tj::TJPARAM_TJPARAM_PROGRESSIVE, c_int::from(progressive))?;
    let file = library_output(|buffer, length| {
        // SAFETY: the handle is live; `rgb` holds width * height * 3 bytes, checked above; with a null buffer the
        // library allocates and stores pointer and length.
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
