//! Kernels that make the rows of a batch from decoded pictures on the device, in one launch, and that find undecoded
//! pictures.
//!
//! NVRTC compiles [`SOURCE`] with [`OPTIONS`] to [`PTX`], which is committed, so that users need no compiler
//! (`gpu/src/kernel/compile.py` writes it). [`CROP_RESIZE`] takes `pictures`, an array on the device, and `batch` by
//! value, with one thread per output pixel in x and y and one picture per block in z. [`FIND_UNDECODED`] takes
//! `pictures`, with one picture per block in x, and the block's threads share its rows. Crops and mirrors are the
//! [`Stage`] that the host's decoder resolves, so the same sample, epoch and seed have the same crop on host and
//! device.
//!
//! Tolerance: a grey level differs from the host's by at most one, in less than one of 500 values, and all later steps
//! are bit-identical. The kernel has only the bilinear filter, black borders, a single stage, to which crops and
//! resizes of pictures amount, and one box with a constant value, as `RandomErasing` draws it.

mod launch;

pub(crate) use launch::Kernels;

use forebay_loader::decode::geometry::{Region, Size, Stage};
use forebay_loader::decode::{DType, ErasedBox, PixelLayout};
use forebay_loader::{Error, ErrorKind, Result};

/// CUDA C++ source without headers.
pub const SOURCE: &str = include_str!("crop_resize.cu");

/// [`SOURCE`] compiled for the driver, for all devices from compute capability 7.0 on.
pub const PTX: &str = include_str!("crop_resize.ptx");

/// Name of the kernel that makes rows.
pub const CROP_RESIZE: &str = "crop_resize";

/// Name of the kernel that finds undecoded pictures.
pub const FIND_UNDECODED: &str = "find_undecoded";

/// Word that fills the memory for pixels before pictures are decoded; the same as in [`SOURCE`].
pub const BLANK: u32 = 0xc33c_a55a;

/// Compiler options that the arithmetic requires.
pub const OPTIONS: [&str; 1] = ["--fmad=false"];

/// Picture and its stage, in the kernels' layout.
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
    erased: [u32; 4],
    erased_value: [f32; 3],
    unused: u32,
}

impl Picture {
    /// Describes the picture with region `decoded` at `pixels`, as interleaved RGB, `pitch` bytes from one row
    /// to the next, and its `stage`. The output is row `row` of the batch. The byte at `undecoded` is set to 1 if a row
    /// of the crop still ends with [`BLANK`].
    ///
    /// # Errors
    ///
    /// `Internal`, when the crop is not inside of the decoded region, or the filter or the border is an unknown one.
    pub fn new(pixels: u64, pitch: u64, decoded: Region, stage: &Stage, row: u32, undecoded: u64) -> Result<Self> {
        let Stage { crop, resized, window, flip, .. } = *stage;
        if !stage.is_device_decodable() {
            return Err(Error::internal("the device has the bilinear filter and black borders only"));
        }
        let inside = |at: u32, len: u32, from: u32, of: u32| at >= from && at - from + len <= of;
        if !inside(crop.x, crop.w, decoded.x, decoded.w) || !inside(crop.y, crop.h, decoded.y, decoded.h) {
            return Err(Error::internal("a crop is outside of the decoded region"));
        }
        let corner = u64::from(crop.y - decoded.y) * pitch + u64::from(crop.x - decoded.x) * 3;
        let i32_range = i64::from(i32::MIN)..=i64::from(i32::MAX);
        if !i32_range.contains(&window.x) || !i32_range.contains(&window.y) {
            return Err(Error::internal("a window is too far from its picture"));
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
            erased: [0; 4],
            erased_value: [0.0; 3],
            unused: 0,
        })
    }

    /// Returns the picture with a box of its output erased.
    pub fn erased(self, erased: ErasedBox) -> Self {
        let ErasedBox { region: Region { x, y, w, h }, value } = erased;
        Self { erased: [x, y, w, h], erased_value: value, ..self }
    }

    /// Returns the bytes of a list in the kernels' layout.
    pub(crate) fn bytes_of(list: &[Self]) -> &[u8] {
        // SAFETY: the struct has C's layout and consists of numbers without padding.
        unsafe { std::slice::from_raw_parts(list.as_ptr().cast(), size_of_val(list)) }
    }
}

/// Output of the pictures of a batch, in the kernel's layout.
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
    /// Describes an output of consecutive pictures of `size` at `out`. A grey level becomes `level * scale + offset` of
    /// its channel; with uint8 it is unchanged.
    ///
    /// # Errors
    ///
    /// `Unsupported` for an element type that the kernel does not write.
    pub fn new(
        out: u64,
        size: Size,
        dtype: DType,
        layout: PixelLayout,
        scale: [f32; 3],
        offset: [f32; 3],
    ) -> Result<Self> {
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
            PixelLayout::Nchw => 0,
            PixelLayout::Nhwc => 1,
        };
        Ok(Self { out, size: [size.w, size.h], dtype, interleaved, scale, offset })
    }
}
