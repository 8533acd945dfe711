//! Pictures: regions of JPEG, PNG, WebP and further files as RGB pixels, resized and changed as Pillow does it.
//!
//! ```text
//! bytes --size--> Size        Region of it                    Stage                     Shape
//!       ------------------> jpeg | a format's ---> Pixels --resize--> rows or Pixels --picture_ops--> pixels
//! ```
//!
//! * [`jpeg`]: decoders of regions, at full size or reduced; row indexes; encoding;
//! * [`formats`]: a table of all remaining formats of files, each one a [`PictureFormat`];
//! * [`png`], [`webp`]: two of them, by the crates `png` and `image-webp`;
//! * [`orientation`]: the camera's orientation in EXIF data; [`rgb`]: stored pixels as RGB;
//! * [`pixels`]: RGB pixels in memory that is kept; [`kept`]: such buffers;
//! * [`geometry`]: sizes, boxes and [`Stage`](geometry::Stage)s, with [`Interpolation`] and [`Border`];
//! * [`masks`]: masks of objects from polygons and run lengths, with pycocotools' pixels;
//! * [`resize`]: crop, antialiased resize, window and mirror in one pass;
//! * [`picture_ops`]: colours, blur, sharpness, affine and perspective transforms;
//! * [`vectors`]: the vector instructions that all of them use.
//!
//! A decoder or resizer belongs to one thread and keeps its memory from picture to picture. Bytes are not trusted:
//! damage ends in an [`Error`], and memory is bounded by [`geometry::PIXELS_MAX`]. The pixels are the same on every
//! machine.
//!
//! ```
//! use forebay_picture::geometry::{Region, Size, Stage};
//! use forebay_picture::jpeg::{Decoder, JpegDecoder, Subsampling, encode};
//! use forebay_picture::pixels::Pixels;
//! use forebay_picture::resize::Resizer;
//!
//! let grey = vec![128; 64 * 48 * 3];
//! let file = encode(&grey, Size { w: 64, h: 48 }, 90, Subsampling::S420, false)?;
//!
//! // The middle of the picture, as 16 x 16 pixels: only the needed part is decoded.
//! let size = Size { w: 16, h: 16 };
//! let mut stage = Stage::identity(size);
//! stage.crop = Region { x: 16, y: 8, w: 32, h: 32 };
//! let (mut decoder, mut resizer) = (Decoder::default(), Resizer::default());
//! let (mut decoded, mut resized) = (Pixels::default(), Pixels::default());
//! let needed = resizer.plan(&stage);
//! decoder.decode(&file, needed, &mut decoded)?;
//! resizer.run_into(&decoded, &mut resized);
//! assert_eq!(resized.region().size(), size);
//! assert!(resized.rgb().iter().all(|level| level.abs_diff(128) <= 1));
//! # Ok::<(), forebay_picture::Error>(())
//! ```

mod aligned;
mod border;
mod format;
pub mod formats;
pub mod geometry;
mod interpolation;
pub mod jpeg;
pub mod kept;
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(unused))]
mod kernel;
pub mod masks;
pub mod orientation;
pub mod picture_ops;
pub mod pixels;
pub mod png;
pub mod resize;
pub mod rgb;
mod size;
mod tiff_entry;
pub mod vectors;
pub mod webp;

pub use border::{Border, PaddingMode};
pub use forebay_core::{Error, ErrorKind, Result};
pub use format::PictureFormat;
pub use interpolation::Interpolation;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
