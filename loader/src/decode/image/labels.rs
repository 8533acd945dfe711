//! Labels that are drawn, not decoded: they move with a picture.

use super::ImageDecoder;
use crate::error::Result;
use forebay_picture::pixels::{Content, Pixels};

impl ImageDecoder {
    /// Applies the steps that [`steps`](Self::steps) has resolved last to `labels`, a whole picture with the size
    /// before them, and calls `sink` for each row of the result. All three bytes of a pixel move together and are never
    /// blended. The contents of `labels` are unspecified afterwards.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub(in crate::decode) fn move_labels(
        &mut self,
        labels: &mut Pixels,
        sink: impl FnMut(u32, [&[u8]; 3]),
    ) -> Result<()> {
        let Self { resizer, augmenter, later_steps, between, .. } = self;
        let Some((last, stages)) = later_steps.stages.split_last() else { return Ok(()) };
        for (number, stage) in stages.iter().enumerate() {
            resizer.plan_for(stage, Content::Labels);
            resizer.run_into(labels, between);
            std::mem::swap(labels, between);
            augmenter.run(later_steps.after(number), Content::Labels, labels, between)?;
        }
        resizer.plan_for(last, Content::Labels);
        resizer.run(labels, sink);
        Ok(())
    }
}
