//! libjpeg-turbo through its TurboJPEG interface, which turns the C library's `longjmp` errors into return codes.

mod encode;
mod output;
mod repair;
#[cfg(test)]
pub(super) mod tests;
mod transcode;

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use turbojpeg_sys as tj;

use super::JpegDecoder;
use super::progression::{Coverage, FEW_RESTARTS};
use super::scan_limit::scans_max;
use crate::geometry::{Region, Scale, Size};
use crate::pixels::Pixels;
use forebay_core::error::{Error, ErrorKind, Result};

pub use encode::{Subsampling, encode};
use output::{OutputFormat, scale_to_bytes};
pub use transcode::to_baseline;

/// Columns that are decoded on each side of the region. Fancy upsampling reads one chroma sample to each side, which is
/// two pixels at half resolution.
const MARGIN: u32 = 2;

/// Smallest width of a region; the library upsamples narrower ones differently from the whole picture.
const WIDTH_MIN: u32 = 16;

/// Warning that leaves the pixels right and that no later one can follow, unless restart markers are missing: too many
/// bytes before the end. The library keeps only the first warning, so any further one may hide damage.
const HARMLESS_WARNING: &str = "extraneous bytes before marker 0xd9";

/// Warning of a file without its end marker, the only one if nothing else is missing.
const END_WARNING: &str = "Premature end of JPEG file";

/// Part of the library's error for a picture with sampling factors that TurboJPEG confuses with simpler ones.
const CROP_ERROR: &str = "cropping region";

/// Returns a file that `write` lets the library allocate, storing its pointer and length in the arguments. Returns
/// `None` if the library's call fails.
fn library_output(write: impl FnOnce(*mut *mut u8, *mut tj::size_t) -> c_int) -> Option<Vec<u8>> {
    let (mut buffer, mut length) = (std::ptr::null_mut(), 0);
    let rc = write(&raw mut buffer, &raw mut length);
    // SAFETY: on success `buffer` holds `length` initialised bytes.
    let file = || unsafe { std::slice::from_raw_parts(buffer, length as usize) }.to_vec();
    let file = (rc == 0 && !buffer.is_null()).then(file);
    // SAFETY: `buffer` is null or came from the library's allocator, and nothing refers to it any more.
    unsafe { tj::tj3Free(buffer.cast()) };
    file
}

/// TurboJPEG instance.
///
/// Invariant: `handle` came from `tj3Init`, is destroyed only in `drop`, and is used by one thread at a time because
/// every call takes `&mut self`.
struct Instance {
    handle: NonNull<std::ffi::c_void>,
}

// SAFETY: an instance is plain heap memory without ties to the thread that created it, and `&mut self` on every call
// excludes concurrent use.
unsafe impl Send for Instance {}

impl Instance {
    fn new(kind: tj::TJINIT) -> Result<Self> {
        // SAFETY: no arguments to uphold; the result is checked for null.
        let handle = unsafe { tj::tj3Init(kind as c_int) };
        NonNull::new(handle)
            .map(|handle| Self { handle })
            .ok_or_else(|| Error::new(ErrorKind::Full, "no memory for a JPEG decoder"))
    }

    fn set(&mut self, parameter: tj::TJPARAM, value: c_int) -> Result<()> {
        // SAFETY: the handle is live (invariant); unknown parameters and values are rejected by return code.
        let rc = unsafe { tj::tj3Set(self.handle.as_ptr(), parameter as c_int, value) };
        if rc == 0 {
            Ok(())
        } else {
            Err(Error::internal("libjpeg-turbo rejects a setting").with("reason", self.message()))
        }
    }

    fn get(&mut self, parameter: tj::TJPARAM) -> c_int {
        // SAFETY: the handle is live (invariant); for an unknown parameter -1 is returned.
        unsafe { tj::tj3Get(self.handle.as_ptr(), parameter as c_int) }
    }

    /// Returns the last error or warning.
    fn message(&mut self) -> String {
        // SAFETY: the handle is live (invariant).
        let text = unsafe { tj::tj3GetErrorStr(self.handle.as_ptr()) };
        if text.is_null() {
            return "unknown".into();
        }
        // SAFETY: not null, and TurboJPEG returns a terminated string inside the instance, which `&mut self` keeps
        // from changing until it is copied here.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }

    /// Converts the return code of a decoding call: `None` for success, a warning, or an error.
    fn outcome(&mut self, rc: c_int) -> Result<Option<String>> {
        if rc == 0 {
            return Ok(None);
        }
        let message = self.message();
        // SAFETY: the handle is live (invariant).
        let code = unsafe { tj::tj3GetErrorCode(self.handle.as_ptr()) };
        if code == tj::TJERR_TJERR_WARNING as c_int {
            Ok(Some(message))
        } else {
            Err(Error::decode("the JPEG cannot be decoded").with("reason", message))
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: the handle is live and not used after `drop` (invariant).
        unsafe { tj::tj3Destroy(self.handle.as_ptr()) };
    }
}

/// Decoder of libjpeg-turbo, with accurate integer DCT and fancy upsampling as in Pillow and torchvision.
pub struct Turbo {
    instance: Instance,
}

/// Header of a picture at a scale.
struct Header {
    size: Size,
    /// Columns of the smallest unit that can be skipped; `None` if only a full decode works.
    unit: Option<u32>,
    format: OutputFormat,
    /// Bits of a sample, 2 to 16. Only lossless pictures have depths that are not 8 or 12.
    bits: u32,
    scale: Scale,
    is_progressive: bool,
}

impl Turbo {
    /// Returns a decoder for one thread.
    ///
    /// # Errors
    /// No memory.
    pub fn new() -> Result<Self> {
        let mut instance = Instance::new(tj::TJINIT_TJINIT_DECOMPRESS)?;
        // Colour profiles are not used, so they need not be copied.
        instance.set(tj::TJPARAM_TJPARAM_SAVEMARKERS, 0)?;
        Ok(Self { instance })
    }

    fn header(&mut self, bytes: &[u8]) -> Result<Header> {
        // SAFETY: the handle is live (invariant of `Instance`), pointer and length are one slice's.
        let rc = unsafe {
            tj::tj3DecompressHeader(self.instance.handle.as_ptr(), bytes.as_ptr(), bytes.len() as tj::size_t)
        };
        // The decode reports a warning again.
        self.instance.outcome(rc)?;
        let (w, h) =
            (self.instance.get(tj::TJPARAM_TJPARAM_JPEGWIDTH), self.instance.get(tj::TJPARAM_TJPARAM_JPEGHEIGHT));
        if w < 1 || h < 1 {
            return Err(Error::decode("the JPEG holds no picture"));
        }
        let lossless = self.instance.get(tj::TJPARAM_TJPARAM_LOSSLESS) == 1;
        let bits = self.instance.get(tj::TJPARAM_TJPARAM_PRECISION);
        if !(2..=16).contains(&bits) {
            let message = "no JPEG has samples with this number of bits";
            return Err(Error::decode(message).of_kind(ErrorKind::Unsupported).with("bits", bits));
        }
        let format = OutputFormat::new(self.instance.get(tj::TJPARAM_TJPARAM_COLORSPACE), lossless);
        let unit = match self.instance.get(tj::TJPARAM_TJPARAM_SUBSAMP) as tj::TJSAMP {
            _ if lossless => None,
            tj::TJSAMP_TJSAMP_444 | tj::TJSAMP_TJSAMP_GRAY | tj::TJSAMP_TJSAMP_440 | tj::TJSAMP_TJSAMP_441 => Some(8),
            tj::TJSAMP_TJSAMP_422 | tj::TJSAMP_TJSAMP_420 => Some(16),
            tj::TJSAMP_TJSAMP_411 => Some(32),
            _ => None,
        };
        let size = Size { w: w as u32, h: h as u32 };
        let is_progressive = self.instance.get(tj::TJPARAM_TJPARAM_PROGRESSIVE) == 1;
        Ok(Header { size, unit, format, bits: bits as u32, scale: Scale::Full, is_progressive })
    }

    /// Creates a new instance for a picture, and reads its header.
    fn start(&mut self, bytes: &[u8], scale: Scale) -> Result<Header> {
        *self = Self::new()?;
        let header = self.header(bytes)?;
        // The cost of a scan depends on the stored size.
        self.instance.set(tj::TJPARAM_TJPARAM_SCANLIMIT, scans_max(header.size) as c_int)?;
        if scale == Scale::Full {
            return Ok(header);
        }
        if self.instance.get(tj::TJPARAM_TJPARAM_LOSSLESS) == 1 {
            return Err(Error::decode("a lossless JPEG has one size only").of_kind(ErrorKind::Unsupported));
        }
        let factor = tj::tjscalingfactor { num: 1, denom: scale.divisor() as c_int };
        // SAFETY: the handle is live (invariant of `Instance`); unsupported factors are rejected.
        let rc = unsafe { tj::tj3SetScalingFactor(self.instance.handle.as_ptr(), factor) };
        self.instance.outcome(rc)?;
        let unit = header.unit.map(|unit| unit / scale.divisor());
        Ok(Header { size: scale.size(header.size), unit, scale, ..header })
    }

    /// Decodes as [`decode`](JpegDecoder::decode) does, at `scale`. `region` is a part of the scaled picture.
    ///
    /// # Errors
    /// As [`decode`](JpegDecoder::decode); `Unsupported` for a lossless file at less than the full scale.
    pub fn decode_scaled(&mut self, bytes: &[u8], scale: Scale, region: Region, pixels: &mut Pixels) -> Result<()> {
        let header = self.start(bytes, scale)?;
        let (mut region, all) = (widen(region, &header)?, Region::all(header.size));
        if header.is_progressive && Coverage::check_headers(bytes).is_err() {
            // The library guesses missing bits from the blocks around each one, in a region from different blocks than
            // in the whole picture.
            region = all;
        }
        match self.decode_flawless(bytes, &header, region, pixels) {
            Err(error) if region != all && error.to_string().contains(CROP_ERROR) => {
                let header = self.start(bytes, scale)?;
                self.decode_flawless(bytes, &header, all, pixels)
            }
            outcome => outcome,
        }
    }

    /// Decodes all of a picture that may be damaged or truncated, as far as it can be read. The rest is as libjpeg
    /// leaves it: mostly grey, or a coarser picture if scans of a progressive one are missing. Returns the damage, if
    /// any.
    ///
    /// # Errors
    /// A header that cannot be read, and all damage after which libjpeg does not continue.
    pub fn decode_damaged(&mut self, bytes: &[u8], scale: Scale, pixels: &mut Pixels) -> Result<Option<String>> {
        let header = self.start(bytes, scale)?;
        let region = Region::all(header.size);
        let out = pixels.start(region, header.format.room());
        let warning = self.decompress(bytes, &header, region, out)?;
        header.format.make_rgb(out);
        Ok(warning)
    }

    /// Decodes exactly `region`, which the library accepts, to the start of `out`, rows without gaps, in its own
    /// colours.
    fn decompress(&mut self, bytes: &[u8], header: &Header, region: Region, out: &mut [u8]) -> Result<Option<String>> {
        let crop = if region == Region::all(header.size) {
            // Zeros mean no cropping, also after an earlier picture's crop.
            tj::tjregion { x: 0, y: 0, w: 0, h: 0 }
        } else {
            tj::tjregion { x: region.x as c_int, y: region.y as c_int, w: region.w as c_int, h: region.h as c_int }
        };
        // SAFETY: the handle is live (invariant of `Instance`); a region that does not fit is rejected.
        let rc = unsafe { tj::tj3SetCroppingRegion(self.instance.handle.as_ptr(), crop) };
        if rc != 0 {
            let message = self.instance.message();
            return Err(Error::decode("the JPEG cannot be decoded in part").with("reason", message));
        }
        let pitch = region.w as usize * header.format.channels();
        let out = &mut out[..pitch * region.h as usize];
        let format = header.format as c_int;
        let mut deep = vec![0_u16; if header.bits > 8 { out.len() } else { 0 }];
        let handle = self.instance.handle.as_ptr();
        let (file, len, pitch) = (bytes.as_ptr(), bytes.len() as tj::size_t, pitch as c_int);
        // In all three calls: SAFETY: the handle is live; `bytes` is one slice. The library writes region.h rows of
        // region.w pixels of `channels()` samples, `pitch` apart, which is `out`, or `deep` of as many: the header that
        // it reads again is the one in the same, immutable bytes that `header` came from.
        let rc = match header.bits {
            // SAFETY: as above.
            ..=8 => unsafe { tj::tj3Decompress8(handle, file, len, out.as_mut_ptr(), pitch, format) },
            9..=12 => {
                let to = deep.as_mut_ptr().cast();
                // SAFETY: as above; samples of 12 bits are the same as signed numbers.
                unsafe { tj::tj3Decompress12(handle, file, len, to, pitch, format) }
            }
            // SAFETY: as above.
            _ => unsafe { tj::tj3Decompress16(handle, file, len, deep.as_mut_ptr(), pitch, format) },
        };
        scale_to_bytes(header.bits, &deep, out);
        self.instance.outcome(rc)
    }

    /// Decodes `region` of a picture that was [started](Self::start), and rejects a damaged one.
    fn decode_flawless(&mut self, bytes: &[u8], header: &Header, region: Region, pixels: &mut Pixels) -> Result<()> {
        let out = pixels.start(region, header.format.room());
        if let Some(warning) = self.damage(bytes, header, region, out)? {
            if let Some(damage) = self.hidden_damage(bytes, header, region, out, &warning) {
                let message = "the JPEG is damaged; set tolerant=True on the field to decode as much of it as possible";
                return Err(Error::decode(message).with("reason", damage));
            }
            log::debug!("decoded an odd JPEG: {warning}");
            // The pixels come from the file as it is.
            let header = self.start(bytes, header.scale)?;
            self.decompress(bytes, &header, region, out)?;
        }
        header.format.make_rgb(out);
        Ok(())
    }

    /// Decodes as [`decompress`](Self::decompress) does, and returns only a warning that may mean damage.
    fn damage(&mut self, bytes: &[u8], header: &Header, region: Region, out: &mut [u8]) -> Result<Option<String>> {
        let warning = self.decompress(bytes, header, region, out)?;
        let is_harmless =
            |warning: &str| warning.contains(HARMLESS_WARNING) && Coverage::check_headers(bytes) != Err(FEW_RESTARTS);
        Ok(warning.filter(|warning| !is_harmless(warning)))
    }

    /// Returns the damage of a picture with a first `warning` that may be about an odd header or a missing end marker
    /// only. The library handles these in a known way; a repaired copy of the file shows later warnings.
    fn hidden_damage(
        &mut self,
        bytes: &[u8],
        header: &Header,
        region: Region,
        out: &mut [u8],
        warning: &str,
    ) -> Option<String> {
        let may_lack_end = warning.contains(END_WARNING);
        let found = repair::repaired(bytes, may_lack_end).and_then(|repaired| {
            let same = self.start(&repaired, header.scale).ok()?;
            let is_same = same.size == header.size && same.format == header.format && same.bits == header.bits;
            is_same.then(|| self.damage(&repaired, &same, region, out).ok()).flatten()
        });
        // If nothing was repaired, or the bytes were not a header after all, the warning is kept.
        found.unwrap_or_else(|| Some(warning.to_owned()))
    }
}

/// Every picture gets a new instance. An old one keeps tables and sizes, with which it would decode a picture that
/// lacks them; and after a failure `tj3DecompressHeader` continues in the middle of the old header.
impl JpegDecoder for Turbo {
    fn size(&mut self, bytes: &[u8]) -> Result<Size> {
        *self = Self::new()?;
        self.header(bytes).map(|h| h.size)
    }

    fn decode(&mut self, bytes: &[u8], region: Region, pixels: &mut Pixels) -> Result<()> {
        self.decode_scaled(bytes, Scale::Full, region, pixels)
    }
}

/// Returns the smallest region that the library can decode with the right pixels in all of `region`.
fn widen(region: Region, header: &Header) -> Result<Region> {
    let size = header.size;
    if region.x + region.w > size.w || region.y + region.h > size.h || region.w == 0 || region.h == 0 {
        return Err(Error::internal("the requested region is outside the picture"));
    }
    let Some(unit) = header.unit else { return Ok(Region::all(size)) };
    let right = (region.x + region.w + MARGIN).min(size.w);
    let mut left = region.x.saturating_sub(MARGIN) / unit * unit;
    while right - left < WIDTH_MIN && left > 0 {
        left -= unit;
    }
    let right = right.max((left + WIDTH_MIN).min(size.w));
    Ok(Region { x: left, y: region.y, w: right - left, h: region.h })
}
