//! From decoded pictures on the device to a batch, in one launch: the source, what it takes, and the launch. And a look at which
//! of them are none, since nobody had decoded them.
//!
//! [`SOURCE`] is compiled with [`OPTIONS`] by NVRTC to [`PTX`], which is committed, so that no compiler is needed where it
//! runs (`gpu/src/kernel/compile.py` writes it). The function is [`NAME`], with `pictures` (an array on the device) and
//! `batch` by value, a thread per output pixel in x and y, and a picture per block in z; and [`LOOK`], with `pictures`, a picture
//! per block in x, whose rows its threads share. Crops and mirrors are the [`Stage`] that
//! the host's decoder resolves, so the same sample, epoch and seed gives the same crop on both.
//!
//! Tolerance: a grey level differs from the host's by at most one, in less than one value of 500, and everything behind
//! it is equal to the bit. Only the bilinear filter and a single stage are made here, which is what crops and resizes of
//! pictures come to.

mod launch;

pub(crate) use launch::Kernels;

use forebay_loader::decode::geometry::{Region, Size, Stage};
use forebay_loader::decode::{DType, Layout};
use forebay_loader::{Error, ErrorKind, Result};

/// CUDA C++ without headers.
pub const SOURCE: &str = include_str!("crop_resize.cu");

/// [`SOURCE`] as the driver takes it, on any device from compute capability 7.0 on.
pub const PTX: &str = include_str!("crop_resize.ptx");

/// The function in [`SOURCE`].
pub const CROP_RESIZE: &str = "crop_resize";

/// The other function in [`SOURCE`].
pub const FIND_UNDECODED: &str = "find_undecoded";

/// What memory for pixels holds before pictures are decoded to it, as [`SOURCE`] has it.
pub const BLANK: u32 = 0xc33c_a55a;

/// What the arithmetic relies on.
pub const OPTIONS: [&str; 1] = ["--fmad=false"];

/// One picture and what becomes of it, as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Picture {
    pixels: u64,
    pitch: u64,
    crop: [u32; 2],
    resized: [u32; 2],
    window: [i32; 2],
    flip: u32,
    row: u32,
    undecoded: u64,
}

impl Picture {
    /// `stage` of the picture whose part `decoded` lies at `pixels`, RGB interleaved, `pitch` bytes from row to row. What
    /// comes out is row `row` of the batch; the byte at `left_out` becomes 1 where a row of the crop still ends with [`BLANK`].
    ///
    /// # Errors
    ///
    /// `Internal`, when the crop is not inside of what was decoded.
    pub fn new(pixels: u64, pitch: u64, decoded: Region, stage: &Stage, row: u32, undecoded: u64) -> Result<Self> {
        let Stage { crop, resized, window, flip } = *stage;
        let inside = |at: u32, len: u32, from: u32, of: u32| at >= from && at - from + len <= of;
        if !inside(crop.x, crop.w, decoded.x, decoded.w) || !inside(crop.y, crop.h, decoded.y, decoded.h) {
            return Err(Error::internal("a crop lies outside of what was decoded"));
        }
        let corner = u64::from(crop.y - decoded.y) * pitch + u64::from(crop.x - decoded.x) * 3;
        let beside = i64::from(i32::MIN)..=i64::from(i32::MAX);
        if !beside.contains(&window.x) || !beside.contains(&window.y) {
            return Err(Error::internal("a window lies too far from its picture"));
        }
        Ok(Self {
            pixels: pixels + corner,
            pitch,
            crop: [crop.w, crop.h],
            resized: [resized.w, resized.h],
            window: [window.x as i32, window.y as i32],
            flip: u32::from(flip),
            row,
            undecoded,
        })
    }

    /// A list of them as the kernel reads it.
    pub(crate) fn bytes_of(list: &[Self]) -> &[u8] {
        // SAFETY: the structure is C's, of numbers without gaps between them.
        unsafe { std::slice::from_raw_parts(list.as_ptr().cast(), size_of_val(list)) }
    }
}

/// Where the pictures go and in which form, as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    out: u64,
    size: [u32; 2],
    dtype: u32,
    interleaved: u32,
    scale: [f32; 3],
    offset: [f32; 3],
}

impl Batch {
    /// Pictures of `size` one after the other at `out`. A grey level becomes `level * scale + offset` of its channel; in
    /// uint8 it stays what it is.
    ///
    /// # Errors
    ///
    /// `Unsupported` for an element type that the kernel does not write.
    pub fn new(out: u64, size: Size, dtype: DType, layout: Layout, scale: [f32; 3], offset: [f32; 3]) -> Result<Self> {
        let dtype = match dtype {
            DType::UInt8 => 0,
            DType::Float16 => 1,
            DType::BFloat16 => 2,
            DType::Float32 => 3,
            _ => {
                let message = "pictures come as uint8, float16, bfloat16 or float32";
                return Err(Error::new(ErrorKind::Unsupported, message).with("dtype", dtype));
            }
        };
        let interleaved = match layout {
            Layout::Nchw => 0,
            Layout::Nhwc => 1,
        };
        Ok(Self { out, size: [size.w, size.h], dtype, interleaved, scale, offset })
    }
}
