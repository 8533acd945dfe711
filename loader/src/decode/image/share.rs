//! Decodes that several pictures of a file share, see [`shared_source`](crate::decode::shared_source).

use super::file::File;
use super::{ImageDecoder, ImageField, Target, scale};
use crate::decode::draw::DrawKey;
use crate::decode::shared_source::{SharedPart, Union, bound, contains};
use crate::decode::steps::resolve_like;
use forebay_picture::geometry::{Region, Scale, Stage};

/// Part of a file that a picture shares with further ones.
pub(super) struct Share {
    pub(super) part: SharedPart,
    /// An earlier picture has decoded it.
    pub(super) is_decoded: bool,
}

impl ImageDecoder {
    /// Plans the first stage, and returns the shared part of the file that it needs. The first picture of a group
    /// decodes that part if this takes less time than decoding for each picture alone.
    pub(super) fn share<'f>(
        &mut self,
        file: &File<'_>,
        field: &ImageField,
        group: usize,
        scale: Scale,
        later: impl Iterator<Item = Target<'f>>,
        key: DrawKey,
    ) -> Option<Share> {
        let earlier = self.shared.decided(group, scale);
        let is_decoded = earlier.is_some();
        let part = match earlier {
            Some(decided) => decided?,
            None => {
                let region = self.union(file, scale, later, key);
                // Damage outside of a picture's region has no effect on it, so errors are the same as in separate
                // decodes.
                let decoded = region.is_some_and(|region| self.decode_part(file, field, scale, region, false).is_ok());
                self.shared.decide(group, scale, decoded.then_some(&mut self.source))?
            }
        };
        let grid = file.orientation.grid(file.stored_size, scale);
        let needed = self.resizer.plan_reduced(&self.steps.stages[0], file.moved, grid);
        contains(self.shared.pixels(part).region(), needed).then_some(Share { part, is_decoded })
    }

    /// Returns the part of the file that the current picture and the pictures of `later` need together, if it is
    /// worthwhile to decode it at once.
    fn union<'f>(
        &mut self,
        file: &File<'_>,
        at: Scale,
        later: impl Iterator<Item = Target<'f>>,
        key: DrawKey,
    ) -> Option<Region> {
        let &File { stored_size, orientation, .. } = file;
        let (grid, size) = (orientation.grid(stored_size, at), at.size(stored_size));
        let bound = |stage: &Stage| bound(stage, grid, orientation.oriented(size));
        let mut union = Union::new(file.cost(at), orientation, size, bound(&self.steps.stages[0]));
        for Target { field, ops, draws } in later {
            // A picture that fails does so when it is decoded.
            let is_like_first = self.first.is_some_and(|first| first.draws == draws);
            let first = is_like_first.then_some(&self.first_scene);
            let oriented = orientation.oriented(stored_size);
            let resolved = resolve_like(first, ops, oriented, draws, key, &mut self.later_steps);
            let stage = resolved.ok().and_then(|()| self.later_steps.stages.first());
            if let Some(stage) = stage.filter(|stage| scale(field, file.format, stage) == at) {
                union.add(bound(stage));
            }
        }
        union.worthwhile()
    }
}
