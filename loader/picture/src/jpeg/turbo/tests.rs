//! Encoder of samples with a depth that is not 8 bits.

use super::{Instance, Subsampling, library_output};
use crate::geometry::Size;
use std::ffi::c_int;
use turbojpeg_sys as tj;

/// Compresses one sample per pixel for grey, otherwise three, of the given `bits`; a lossy picture has 12.
pub(in crate::jpeg) fn encode_deep(
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
    instance.set(tj::TJPARAM_TJPARAM_SUBSAMP, subsampling as c_int).unwrap();
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
