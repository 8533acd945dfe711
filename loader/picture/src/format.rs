//! Interface of a format of picture files; [`formats`](crate::formats) has the table.

use crate::geometry::{Region, Size};
use crate::orientation::Orientation;
use crate::pixels::{Content, Pixels};
use forebay_core::error::Result;

/// Format of picture files. JPEG is none of them: its [decoder](crate::jpeg::Decoder) keeps state.
pub trait PictureFormat: Sync {
    /// Name in messages.
    fn name(&self) -> &'static str;

    /// Returns true if `bytes` start as a file of this format does.
    fn is_start(&self, bytes: &[u8]) -> bool;

    /// Returns the picture's size, from its headers.
    ///
    /// # Errors
    /// Damaged or truncated headers.
    fn size(&self, bytes: &[u8]) -> Result<Size>;

    /// Returns the camera's orientation. A file without one, or with damaged data about it, is upright as stored.
    fn orientation(&self, _bytes: &[u8]) -> Orientation {
        Orientation::default()
    }

    /// Returns true if the orientation is a part of the picture, which Pillow always turns.
    fn is_always_turned(&self) -> bool {
        false
    }

    /// Returns true if a file has values of 16 bits.
    fn is_deep(&self, _bytes: &[u8]) -> bool {
        false
    }

    /// Returns true if all of a file is decoded for any part of its picture, and false if it is decoded from the top.
    fn is_decoded_whole(&self) -> bool {
        true
    }

    /// Decodes `region` of the stored picture. Labels and deep pictures are the stored values of one channel, each as
    /// [`deep_pixel`](crate::pixels::deep_pixel) of it. The opacity is written if it is wanted.
    ///
    /// # Errors
    /// Damaged or truncated data; `Unsupported` for kinds of files that are not decoded, and for a `content` that the
    /// file cannot have.
    fn decode(
        &self,
        bytes: &[u8],
        region: Region,
        content: Content,
        pixels: &mut Pixels,
        opacity: Option<&mut Pixels>,
    ) -> Result<()>;
}
