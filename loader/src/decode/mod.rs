//! Decoding of stored bytes into the rows of a batch: `&[u8]` in, `&mut [u8]` out, nothing else.
//!
//! ```text
//! FieldSpec (JSON) --compile, once--> FieldPlan --decoder(), per thread--> SampleDecoder
//!                                         |                                    | per sample
//!    fields: a file per kind          outputs: name, dtype, shape              v
//!   image   sniff -> size -> steps (draws) -> jpeg | formats | pil, the region -> resize -> normalise -> row
//!                  (oriented)  |               (-> orientation)                     |   ^
//!                              '- geometry, framing: stages; augment: actions       '---'  pixels, actions, resize
//!   number, tokens, array     numeric: checked conversion, ragged                                         -> row
//!   boxes, key points         boxes, points: follow the stages and actions of a picture                    -> row
//!   object_masks, class_map   segmentation: drawn at the picture's size -> image::labels: the same steps     -> row
//!   json                      json_value: by its path, then as text, number or array                       -> row
//!   text, bytes               copied                                                                      -> row
//!   absent                    default                                                                     -> row
//! ```
//!
//! [`TokenCounter`] has the number of ids of a stored value, without a row.
//!
//! The files of pictures, geometry, pixels, resizes and operations on pixels are in the crate `forebay-picture`. This
//! module adds the parts of fields: their specification, draws, the fold of operations into stages, rows of outputs.
//!
//! Everything here is pure: the result is a function of the bytes, the plan and the [`DrawKey`]. A decoder owns its
//! memory and its libraries' state, and keeps both from sample to sample. Bytes are not trusted: any damage ends in an
//! [`Error`](crate::Error) that describes it, and memory is bounded by
//! [`geometry::PIXELS_MAX`].
//!
//! ```
//! use forebay_loader::decode::{DrawKey, FieldPlan, FieldSpec, Row};
//! use forebay_loader::format::{Column, Encoding};
//!
//! // One column of raw bytes in three tokens of 16 bits, delivered as a row of four 64-bit tokens.
//! let columns = [Column::new("text", Encoding::parse("bytes")?)];
//! let fields: Vec<(String, FieldSpec)> = serde_json::from_str(
//!     r#"[["ids", {"kind": "tokens", "column": "text", "length": 4, "pad": 0, "stored": "uint16"}]]"#,
//! )?;
//! let plan = FieldPlan::compile(Some(&fields), &columns, 0)?;
//! let mut row = vec![0; plan.outputs()[0].row_bytes().expect("a fixed size")];
//! let stored: [&[u8]; 1] = [&[1, 0, 2, 0, 3, 0]];
//! let column = |number| stored.get(number).copied();
//! plan.decoder().decode(column, |_| &[], DrawKey::default(), [Row::Fixed(&mut row)])?;
//! assert_eq!(row, [1i64, 2, 3, 0].map(i64::to_le_bytes).concat());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod augment;
mod box_format;
mod boxes;
mod compile;
pub mod compose;
mod default;
pub mod draw;
pub mod field;
pub mod fields;
pub mod framing;
mod image;
mod json_value;
pub mod linear;
pub mod mix;
pub mod normalise;
pub mod numeric;
mod pil;
mod plan;
mod points;
mod positions;
pub mod ragged;
mod resolve_ops;
mod row;
mod sample;
mod scene;
mod segmentation;
mod shared_source;
mod step;
pub mod steps;
mod token_counter;

pub use crate::format::encoding::DType;
pub use box_format::BoxFormat;
pub use compile::drawn;
pub use draw::{DRAWS_VERSION, DrawKey};
pub use field::{BatchOp, MixMode, Op, PictureMode, PixelLayout, ResizeTo};
pub use fields::{FieldSpec, JsonPart, JsonPath, JsonText, JsonType, Rearrangement};
pub(crate) use fields::{LABELS, NO_LABEL};
pub use forebay_picture::{Border, Interpolation, PaddingMode};
pub use forebay_picture::{formats, geometry, jpeg, orientation, picture_ops, pixels, resize, vectors};
pub use image::PictureCounts;
pub use normalise::PictureForm;
pub use plan::{FieldPlan, Output, RowShape, StoredColumn};
pub use row::{EncodedPicture, ErasedBox, PictureTaker, Row};
pub use sample::SampleDecoder;
pub use token_counter::{ColumnTokens, CountMemory, TokenCounter};
