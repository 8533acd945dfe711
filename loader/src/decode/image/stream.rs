//! JPEGs with a single stage: rows of pixels go from the decoder to the resize and on to the batch while they are in
//! the first-level cache, and the picture is never in memory as a whole.

use super::file::{File, Format};
use super::{ImageDecoder, Row, Target, luma, pixels_of_row};
use crate::decode::draw::DrawKey;
use crate::error::Result;
use forebay_picture::geometry::Scale;
use forebay_picture::pixels::Content;

impl ImageDecoder {
    /// Decodes the file at `scale` into `row`. Returns false for pictures that need all pixels at once, and for files
    /// that must be decoded or rejected in the usual way; `row` is then not complete.
    ///
    /// # Errors
    /// A row that is not the picture's.
    pub(super) fn stream(
        &mut self,
        file: &File<'_>,
        target: Target<'_>,
        scale: Scale,
        key: DrawKey,
        row: &mut Row<'_>,
    ) -> Result<bool> {
        let Target { field, .. } = target;
        let is_plain =
            matches!(file.format, Format::Jpeg) && field.content == Content::Colours && file.orientation.is_stored();
        let (true, [stage]) = (is_plain, &self.steps.stages[..]) else { return Ok(false) };
        let output = stage.output();
        let grid = file.orientation.grid(file.stored_size, scale);
        let region = self.resizer.plan_reduced(stage, file.moved, grid);
        let out = pixels_of_row(row, &field.writer, output)?;
        let Self { jpeg, resizer, grey, .. } = self;
        let mut write = |y: u32, row: [&[u8]; 3]| {
            let row = if field.is_grey { [luma(row, grey); 3] } else { row };
            field.writer.write(out, output, y, row);
        };
        let Some(mut rows) = resizer.stream(&mut write) else { return Ok(false) };
        if !jpeg.decode_rows(file.bytes, file.index, scale, region, &mut rows) {
            return Ok(false);
        }
        self.counts.scaled += u64::from(scale != Scale::Full);
        self.finish_row(target, output, key, out);
        Ok(true)
    }
}
