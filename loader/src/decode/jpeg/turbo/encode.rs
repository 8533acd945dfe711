//! Writing JPEGs.

use super::Instance;
use crate::decode::geometry::Size;
use crate::error::{Error, Result};
use std::ffi::c_int;
use turbojpeg_sys as tj;

/// How chroma is stored.
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

/// Compresses RGB pixels: for synthetic data sets and tests.
///
/// # Errors
/// Sizes that do not fit together, a quality outside of 1 to 100, no memory.
pub fn encode(rgb: &[u8], size: Size, quality: u8, subsampling: Subsampling, progressive: bool) -> Result<Vec<u8>> {
    if rgb.len() != size.w as usize * size.h as usize * 3 || rgb.is_empty() || size.w > 65_500 || size.h > 65_500 {
        return Err(Error::config("pixels and size of a JPEG to be written do not fit").with("bytes", rgb.len()));
    }
    let mut instance = Instance::new(tj::TJINIT_TJINIT_COMPRESS)?;
    let subsampling = match subsampling {
        Subsampling::S444 => tj::TJSAMP_TJSAMP_444,
        Subsampling::S422 => tj::TJSAMP_TJSAMP_422,
        Subsampling::S420 => tj::TJSAMP_TJSAMP_420,
        Subsampling::S440 => tj::TJSAMP_TJSAMP_440,
        Subsampling::S411 => tj::TJSAMP_TJSAMP_411,
        Subsampling::S441 => tj::TJSAMP_TJSAMP_441,
        Subsampling::Grey => tj::TJSAMP_TJSAMP_GRAY,
    };
    instance.set(tj::TJPARAM_TJPARAM_QUALITY, c_int::from(quality))?;
    instance.set(tj::TJPARAM_TJPARAM_SUBSAMP, subsampling as c_int)?;
    instance.set(tj::TJPARAM_TJPARAM_PROGRESSIVE, c_int::from(progressive))?;
    let mut buffer = std::ptr::null_mut();
    let mut length = 0;
    // SAFETY: the handle is live; `rgb` holds width * height * 3 bytes, checked above; with a null buffer the library
    // allocates and stores pointer and length.
    let rc = unsafe {
        tj::tj3Compress8(
            instance.handle.as_ptr(),
            rgb.as_ptr(),
            size.w as c_int,
            0,
            size.h as c_int,
            tj::TJPF_TJPF_RGB as c_int,
            &raw mut buffer,
            &raw mut length,
        )
    };
    // SAFETY: pointer and length are the library's.
    unsafe { take(&mut instance, rc, buffer, length) }
}

/// What the library has written, or why it has not.
///
/// # Safety
///
/// `buffer` is null or came from the library, which nobody else refers to; if `rc` is 0, it holds `length` bytes.
unsafe fn take(instance: &mut Instance, rc: c_int, buffer: *mut u8, length: tj::size_t) -> Result<Vec<u8>> {
    let out = if rc == 0 && !buffer.is_null() {
        // SAFETY: by the contract above.
        Ok(unsafe { std::slice::from_raw_parts(buffer, length as usize) }.to_vec())
    } else {
        Err(Error::internal("libjpeg-turbo cannot compress the picture").with("reason", instance.message()))
    };
    // SAFETY: by the contract above.
    unsafe { tj::tj3Free(buffer.cast()) };
    out
}

/// A picture of `channels` samples per pixel with so many `bits`; what is lossy has 12.
#[cfg(test)]
pub(in crate::decode::jpeg) fn encode_deep(
    samples: &[u16],
    size: Size,
    channels: usize,
    bits: u32,
    is_lossless: bool,
    subsampling: tj::TJSAMP,
) -> Vec<u8> {
    assert_eq!(samples.len(), (size.w * size.h) as usize * channels);
    let mut instance = Instance::new(tj::TJINIT_TJINIT_COMPRESS).unwrap();
    instance.set(tj::TJPARAM_TJPARAM_QUALITY, 95).unwrap();
    instance.set(tj::TJPARAM_TJPARAM_LOSSLESS, c_int::from(is_lossless)).unwrap();
    instance.set(tj::TJPARAM_TJPARAM_PRECISION, bits as c_int).unwrap();
    instance.set(tj::TJPARAM_TJPARAM_SUBSAMP, subsampling as c_int).unwrap();
    let format = if channels == 1 { tj::TJPF_TJPF_GRAY } else { tj::TJPF_TJPF_RGB } as c_int;
    let (mut buffer, mut length) = (std::ptr::null_mut(), 0);
    let (handle, w, h) = (instance.handle.as_ptr(), size.w as c_int, size.h as c_int);
    let bytes: Vec<u8> = samples.iter().map(|sample| *sample as u8).collect();
    // In all three calls:
    // SAFETY: the handle is live; there are width * height * channels samples, checked above; with a null buffer the library
    // allocates and stores pointer and length.
    let rc = match bits {
        // SAFETY: as above.
        2..=8 => unsafe { tj::tj3Compress8(handle, bytes.as_ptr(), w, 0, h, format, &raw mut buffer, &raw mut length) },
        9..=12 => {
            let from = samples.as_ptr().cast();
            // SAFETY: as above.
            unsafe { tj::tj3Compress12(handle, from, w, 0, h, format, &raw mut buffer, &raw mut length) }
        }
        _ => {
            let from = samples.as_ptr();
            // SAFETY: as above.
            unsafe { tj::tj3Compress16(handle, from, w, 0, h, format, &raw mut buffer, &raw mut length) }
        }
    };
    // SAFETY: pointer and length are the library's.
    unsafe { take(&mut instance, rc, buffer, length) }.unwrap()
}
