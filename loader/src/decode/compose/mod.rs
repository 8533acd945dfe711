//! Operations that make one sample of several: [`Mosaic`] and [`CopyPaste`].
//!
//! ```text
//! plan          Composition::choose: partners of a sample, of its neighbours in the order of the epoch
//! sample plane  a row for each partner, read and decoded as any row, with the fields of the composition alone
//! place         Composition::compose: the rows of each sample and its partners become one row of the batch
//! ```
//!
//! Reasons:
//!
//! * Partners come from the plan, not from the batch as for a [`Mix`](super::mix): a rank has only a part of the global
//!   batch, so partners of the batch would depend on the number of ranks. Here a sample has the same partners on any
//!   number of ranks, with any number of threads, and after a resume.
//! * Partners are neighbours in the shuffled order, at most [`NEIGHBOURS`](crate::order::NEIGHBOURS) positions away and
//!   of the same canonical node. Partners of the whole data set would need all shards at once, and would thrash a cache
//!   with a limit; the shards of neighbours are on the disk already, or will be soon.
//! * A partner is a row like any row: its shard is announced, it may wait for a read or an eviction, and a partner that
//!   is damaged counts as a bad sample. It is then left out of the composition.
//! * Rows are composed when the last row of the batch is there, as packs are. This is a copy of the finished pictures,
//!   so operations of the pictures are before it, and each part has its own draws.

mod copy_paste;
mod mosaic;
mod objects;
mod pixels;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::augment::check_within;
use super::box_format::BoxFormat;
use super::draw::{DrawKey, FieldDraws, OpDraws};
use super::ragged::read_ragged;
use crate::error::{Error, Result};
use crate::format::encoding::DType;
pub use copy_paste::CopyPaste;
use forebay_picture::geometry::Size;
pub use mosaic::Mosaic;
pub(super) use pixels::PixelForm;

/// Operation that makes one sample of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum ComposeOp {
    /// Four pictures around a point.
    Mosaic(Mosaic),
    /// Objects of a second picture.
    CopyPaste(CopyPaste),
}

/// Number of the operations in the key of their draws, different from the numbers of a picture's operations.
const NUMBER: u32 = 201;

/// Part of the draws for the choice of partners.
const CHOICE: u32 = 0;

/// Part of the draws for the composition.
const PLACES: u32 = 1;

/// Composition of the samples of a loader with their partners.
#[derive(Debug)]
pub struct Composition {
    op: ComposeOp,
    /// Probability that a sample is composed.
    p: f64,
    draws: FieldDraws,
    members: Vec<Member>,
    /// Size of the pictures after the composition.
    size: Size,
}

/// Output that is composed. Its rows are decoded as ragged arrays.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Its number among the outputs.
    pub output: usize,
    pub role: Role,
}

/// Meaning of the elements of an output.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// A picture, or labels of its pixels.
    Picture {
        form: PixelForm,
        /// Shape of a composed row.
        shape: Vec<usize>,
    },
    /// Boxes of objects.
    Boxes(BoxRule),
    /// Values of the boxes.
    BoxLabels,
    /// Masks of objects.
    ObjectMasks,
    /// Points of objects.
    Points,
}

/// Format of boxes, and the boxes that are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoxRule {
    pub format: BoxFormat,
    /// Smallest width and height.
    pub min_size: f64,
    pub min_area: f64,
}

/// Decoded array of an output.
#[derive(Clone, Debug)]
struct Array<'a> {
    dtype: DType,
    shape: Vec<usize>,
    bytes: &'a [u8],
}

/// Decoded rows of a sample: an array for each member.
type SamplePart<'a> = Vec<Array<'a>>;

impl Composition {
    /// Makes the composition of `members`, outputs with pictures of these sizes; `None` where a size depends on the
    /// sample.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`]: arguments outside of their range; outputs that the operation cannot compose.
    pub(super) fn new(
        (op, p): (ComposeOp, f64),
        draws: FieldDraws,
        members: Vec<Member>,
        sizes: &[Option<Size>],
    ) -> Result<Arc<Self>> {
        check_within(op.name(), "p", p, 0.0, 1.0)?;
        let count = |is_meant: fn(&Role) -> bool| members.iter().filter(|member| is_meant(&member.role)).count();
        if count(|role| matches!(role, Role::Boxes(_))) > 1 {
            return Err(Error::config(format!("a {} has one field of Boxes at most", op.name())));
        }
        if count(|role| matches!(role, Role::ObjectMasks)) > 1 {
            return Err(Error::config(format!("a {} has one field of ObjectMasks at most", op.name())));
        }
        let size = match &op {
            ComposeOp::Mosaic(mosaic) => mosaic.check()?,
            ComposeOp::CopyPaste(paste) => paste.check(&members, sizes)?,
        };
        Ok(Arc::new(Self { op, p, draws, members, size }))
    }

    /// Most rows that make one row of the batch.
    pub fn rows_max(&self) -> usize {
        1 + self.op.partners()
    }

    /// Pictures among the outputs, each with the shape of its rows after the composition.
    pub fn pictures(&self) -> impl Iterator<Item = (usize, &[usize])> {
        self.members.iter().filter_map(|member| match &member.role {
            Role::Picture { shape, .. } => Some((member.output, &**shape)),
            _ => None,
        })
    }

    /// Outputs that are composed, in the order of the arrays of [`compose`](Self::compose).
    pub fn outputs(&self) -> impl Iterator<Item = usize> {
        self.members.iter().map(|member| member.output)
    }

    /// True if the output is composed.
    pub fn has(&self, output: usize) -> bool {
        self.outputs().any(|own| own == output)
    }

    /// Adds the partners of a sample to `chosen`, as numbers below `neighbours`.
    pub fn choose(&self, key: DrawKey, neighbours: u64, chosen: &mut Vec<u64>) {
        let mut numbers = self.numbers(key, CHOICE);
        if numbers.unit() < self.p {
            let neighbours = u32::try_from(neighbours).unwrap_or(u32::MAX);
            chosen.extend((0..self.op.partners()).map(|_| u64::from(numbers.below(neighbours))));
        }
    }

    /// Checks the decoded rows of a sample; `row` returns the row of an output.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Decode`] for pictures of different sizes.
    pub fn check<'a>(&self, row: impl FnMut(usize) -> &'a [u8]) -> Result<()> {
        self.size_of(&self.part(row)?).map(drop)
    }

    /// Composes a sample of its own row and the rows of its partners, `None` for a partner that was left out. `row`
    /// returns the row of an output. The pictures are written into `pictures`; the rest is returned: a ragged row for
    /// each output, empty for pictures.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Decode`] for parts with arrays that do not fit together; [`crate::ErrorKind::Internal`] for
    /// rows that are not of the plan.
    pub fn compose<'a>(
        &self,
        key: DrawKey,
        parts: &[Option<usize>],
        mut row: impl FnMut(usize, usize) -> &'a [u8],
        pictures: &mut [&mut [u8]],
    ) -> Result<Vec<Vec<u8>>> {
        let part = |place: &Option<usize>| place.map(|place| self.part(|output| row(place, output))).transpose();
        let parts: Vec<Option<SamplePart<'a>>> = parts.iter().map(part).collect::<Result<_>>()?;
        let numbers = self.numbers(key, PLACES);
        match &self.op {
            ComposeOp::Mosaic(mosaic) => self.compose_mosaic(mosaic, numbers, &parts, pictures),
            ComposeOp::CopyPaste(_) => self.compose_paste(numbers, &parts, pictures),
        }
    }

    fn numbers(&self, key: DrawKey, part: u32) -> super::draw::Draws {
        OpDraws::new(self.draws, key, NUMBER, 0).part(part).numbers()
    }

    fn part<'a>(&self, mut row: impl FnMut(usize) -> &'a [u8]) -> Result<SamplePart<'a>> {
        let array = |member: &Member| {
            let (dtype, shape, bytes) = read_ragged(row(member.output))?;
            Ok(Array { dtype, shape, bytes })
        };
        self.members.iter().map(array).collect()
    }

    /// Returns the size of the pictures of a sample, which have one.
    fn size_of(&self, part: &SamplePart<'_>) -> Result<Size> {
        let mut sizes =
            self.members.iter().zip(part).filter_map(|(member, array)| match (&member.role, &*array.shape) {
                (Role::Picture { form, .. }, shape) => form.size_of(shape),
                (Role::ObjectMasks, &[_, h, w]) => Some(Size { w: w as u32, h: h as u32 }),
                _ => None,
            });
        let first = sizes.next().ok_or_else(|| Error::internal("a composition has no picture"))?;
        match sizes.find(|size| *size != first) {
            None => Ok(first),
            Some(other) => Err(Error::decode(format!(
                "the pictures and masks of a {} have different sizes: end their operations at the same size",
                self.op.name()
            ))
            .with("sizes", format!("{first} and {other}"))),
        }
    }
}

impl ComposeOp {
    /// Name of its class.
    fn name(&self) -> &'static str {
        match self {
            Self::Mosaic(_) => "Mosaic",
            Self::CopyPaste(_) => "CopyPaste",
        }
    }

    fn partners(&self) -> usize {
        match self {
            Self::Mosaic(_) => 3,
            Self::CopyPaste(_) => 1,
        }
    }

    /// Label of pixels without a picture; `None` if there are none.
    pub(super) fn fill_mask(&self) -> Option<u8> {
        match self {
            Self::Mosaic(mosaic) => Some(mosaic.fill_mask),
            Self::CopyPaste(_) => None,
        }
    }

    /// Colour of pixels without a picture; `None` if there are none.
    pub(super) fn fill(&self) -> Option<[u8; 3]> {
        match self {
            Self::Mosaic(mosaic) => Some(mosaic.fill),
            Self::CopyPaste(_) => None,
        }
    }

    /// Size of composed pictures, if the operation sets it.
    pub(super) fn size(&self) -> Option<Size> {
        match self {
            Self::Mosaic(Mosaic { size: [h, w], .. }) => Some(Size { w: *w, h: *h }),
            Self::CopyPaste(_) => None,
        }
    }
}
