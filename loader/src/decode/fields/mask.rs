//! Fields of pictures of labels.

use serde::{Deserialize, Serialize};

use super::column::Columns;
use super::kind::{Compiled, FieldKind, JointParts, ScenePart, int64};
use super::ops::MeanAndStd;
use super::picture::PictureArgs;
use crate::decode::draw::FieldDraws;
use crate::decode::field::Op;
use crate::decode::image::ReadOptions;
use crate::decode::normalise::PictureWriter;
use crate::decode::step::Work;
use crate::error::{Error, Result};
use crate::format::encoding::DType;
use forebay_picture::pixels::Content;

/// A picture of labels, as for segmentation: stored values unchanged, one channel, nearest neighbour. In a `Joint`
/// with its picture it gets the same crops and flips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mask {
    /// The column: a PNG of one channel (grey or palette), or `pil` of mode L, P or I;16.
    pub column: String,
    /// Operations in order, without `Normalize`.
    #[serde(default)]
    pub ops: Vec<Op>,
    /// An integer type that holds 255. A label above its largest number, of 16 bits, is an error.
    #[serde(default = "int64")]
    pub dtype: DType,
}

impl FieldKind for Mask {
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
        ScenePart::Labels(&self.ops)
    }
}

impl Mask {
    fn compile_for(&self, joint: Option<&JointParts<'_>>, columns: Columns<'_>, draws: FieldDraws) -> Result<Compiled> {
        let writer = |normalise: Option<MeanAndStd>| match normalise {
            None => PictureWriter::labels(self.dtype),
            Some(_) => Err(Error::config("a Mask holds labels: Normalize would change them")),
        };
        let (content, reading) = (Content::Labels, ReadOptions::default());
        let args = PictureArgs { column: &self.column, ops: &self.ops, content, reading, joint };
        let (index, field, shape) = args.compile(columns, draws, writer)?;
        Ok(Compiled { column: Some(index), dtype: field.writer.dtype(), work: Work::Picture(Box::new(field)), shape })
    }
}
