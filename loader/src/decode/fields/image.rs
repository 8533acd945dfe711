//! Fields of pictures.

use serde::{Deserialize, Serialize};

use super::column::Columns;
use super::kind::{Compiled, FieldKind, JointParts, ScenePart, uint8};
use super::ops::{MeanAndStd, check_mode};
use super::picture::PictureArgs;
use super::views;
use crate::decode::draw::FieldDraws;
use crate::decode::field::{Op, PictureMode, PixelLayout};
use crate::decode::image::ReadOptions;
use crate::decode::normalise::PictureWriter;
use crate::decode::step::Work;
use crate::error::Result;
use crate::format::encoding::DType;
use forebay_picture::pixels::Content;

/// A picture: decoded, transformed, with the channels of a mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Name of the column.
    pub column: String,
    /// Operations in order; `Normalize` last, or before `RandomErasing`.
    #[serde(default)]
    pub ops: Vec<Op>,
    /// `uint8`: grey levels. A float type: grey levels / 255, then `Normalize`. Mode I;16 has `uint16` or `int32`
    /// instead of `uint8`, and values / 65535.
    #[serde(default = "uint8")]
    pub dtype: DType,
    /// Order of the dimensions.
    #[serde(default)]
    pub layout: PixelLayout,
    /// If true, a damaged or truncated JPEG is decoded as far as possible. Otherwise it is an error.
    #[serde(default)]
    pub tolerant: bool,
    /// If true, a file is rotated and mirrored by its EXIF or XMP orientation before the operations.
    #[serde(default)]
    pub apply_exif_orientation: bool,
    /// If true, a JPEG is decoded at a half, a quarter or an eighth of its size when the first resize shrinks it at
    /// least that much in both directions. Faster, but not exact.
    #[serde(default)]
    pub scaled_decode: bool,
    /// Pictures of each sample with different draws, as a dimension before the rest. Default: one, without it.
    #[serde(default)]
    pub views: Option<u32>,
    /// Channels.
    #[serde(default)]
    pub mode: PictureMode,
}

impl FieldKind for Image {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, columns: Columns<'_>, draws: FieldDraws) -> Result<Compiled> {
        self.compile_for(None, columns, draws)
    }

    fn compile_in(&self, joint: &JointParts<'_>, columns: Columns<'_>, draws: FieldDraws) -> Result<Compiled> {
        self.compile_for(Some(joint), columns, draws)
    }

    fn scene_part(&self) -> ScenePart<'_> {
        ScenePart::Pixels(&self.ops)
    }

    fn views(&self) -> Result<Option<u32>> {
        views::count(self.views, &self.ops)
    }

    fn is_mixable(&self) -> bool {
        true
    }
}

impl Image {
    fn compile_for(&self, joint: Option<&JointParts<'_>>, columns: Columns<'_>, draws: FieldDraws) -> Result<Compiled> {
        let &Self { dtype, layout, tolerant, apply_exif_orientation, scaled_decode, mode, .. } = self;
        let reading = ReadOptions { tolerant, apply_exif_orientation, scaled_decode };
        let (content, channels) = match mode {
            PictureMode::Rgb => (Content::Colours, 3),
            PictureMode::Grey => (Content::Grey, 1),
            PictureMode::Opacity => (Content::Opacity, 4),
            PictureMode::Deep => (Content::Deep, 1),
        };
        check_mode(&self.ops, mode)?;
        let writer = |normalise: Option<MeanAndStd>| {
            let normalise = normalise.as_ref().map(|(mean, std)| (&mean[..], &std[..]));
            if content == Content::Deep {
                return PictureWriter::deep(dtype, layout, normalise);
            }
            PictureWriter::with_channels(dtype, layout, channels, normalise)
        };
        let args = PictureArgs { column: &self.column, ops: &self.ops, content, reading, joint };
        let (index, mut field, mut shape) = args.compile(columns, draws, writer)?;
        if let Some(views) = self.views()? {
            views::add(views, &mut field, &mut shape)?;
        }
        Ok(Compiled { column: Some(index), dtype: field.writer.dtype(), work: Work::Picture(Box::new(field)), shape })
    }
}
