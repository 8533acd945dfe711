//! Destinations of decoded values: rows of the outputs.

use std::mem::MaybeUninit;

use crate::error::{Error, Result};
use forebay_picture::geometry::{Region, Size, Stage};

/// Destination of one output of one sample.
pub enum Row<'a> {
    /// A row of the batch's tensor. Its length must match the output's shape and type.
    Fixed(&'a mut [u8]),
    /// A buffer; its contents are replaced.
    Var(&'a mut Vec<u8>),
    /// Uninitialised memory with the length of the value.
    Sized(&'a mut [MaybeUninit<u8>]),
    /// Nothing to do: the value was read directly into its destination.
    Filled,
    /// A buffer with the stored value, which becomes the row.
    Stored(&'a mut Vec<u8>),
    /// As `Fixed`, for a picture that a second decoder may take, with the number that it knows the output by. If it
    /// does not, the picture is decoded here.
    Encodable(&'a mut [u8], &'a dyn PictureTaker, usize),
}

/// Picture for a second decoder: its file's length, and the operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EncodedPicture {
    /// Bytes of the file.
    pub bytes: usize,
    /// Size of the stored picture.
    pub size: Size,
    /// Operations, see [`Stage::is_device_decodable`].
    pub stage: Stage,
    /// Box of the finished row that is erased.
    pub erased: Option<ErasedBox>,
}

/// Box of a finished row that has one value per channel, in the units of the row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErasedBox {
    /// The box.
    pub region: Region,
    /// Red, green and blue.
    pub value: [f32; 3],
}

/// Interface to a second decoder of pictures.
pub trait PictureTaker {
    /// Takes `picture` of an output by keeping its `file`, in `row` (the memory of the decoded picture) or elsewhere.
    /// Returns false if it does not, and the picture is decoded here.
    fn take(&self, output: usize, picture: EncodedPicture, file: &[u8], row: &mut [u8]) -> bool;
}

impl Row<'_> {
    /// Returns the memory of a [`Row::Fixed`], which must have `bytes` bytes.
    pub(super) fn fixed(&mut self, bytes: usize) -> Result<&mut [u8]> {
        match self {
            Row::Fixed(out) if out.len() == bytes => Ok(out),
            _ => Err(Error::internal("a row does not have its output's size").with("expected", bytes)),
        }
    }

    /// Copies `bytes` into a row of variable size.
    pub(super) fn copy_from(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Row::Var(out) | Row::Stored(out) => {
                out.clear();
                out.extend_from_slice(bytes);
                Ok(())
            }
            Row::Sized(out) if out.len() == bytes.len() => {
                out.iter_mut().zip(bytes).for_each(|(to, from)| {
                    to.write(*from);
                });
                Ok(())
            }
            Row::Sized(_) => Err(Error::internal("the memory for a value does not have its length")),
            _ => Err(Error::internal("text and bytes have no fixed size")),
        }
    }
}
