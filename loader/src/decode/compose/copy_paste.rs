//! CopyPaste: objects of a second picture on the picture of the sample, as torchvision's reference for detection does.
//!
//! As many objects of the partner are drawn as it has, with replacement, and each one that was drawn is pasted once. An
//! object of the sample loses the pixels that are covered. Objects without a pixel left are left out, and a box of an
//! object that lost some becomes the box of the rest. The reference takes all boxes from the masks, and counts
//! columns to the last pixel, not to its end; here boxes that need not change do not.

use serde::{Deserialize, Serialize};

use super::objects::PartObjects;
use super::{Composition, Member, Role, SamplePart};
use crate::decode::box_format::Corners;
use crate::decode::draw::Draws;
use crate::error::{Error, Result};
use forebay_picture::geometry::Size;

/// Objects of a second picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyPaste {}

/// Result of a paste.
struct Pasted {
    /// The sample's objects, and the masks of those that are kept.
    own: PartObjects,
    own_masks: Vec<u8>,
    /// The partner's objects that are pasted, and their masks.
    added: PartObjects,
    added_masks: Vec<u8>,
    /// 1 for each pixel that is covered.
    covered: Vec<u8>,
}

impl CopyPaste {
    pub(super) fn check(&self, members: &[Member], sizes: &[Option<Size>]) -> Result<Size> {
        if !members.iter().any(|member| matches!(member.role, Role::ObjectMasks)) {
            return Err(Error::config("CopyPaste pastes objects by their masks: give it a field of ObjectMasks"));
        }
        let size = match sizes {
            [Some(first), rest @ ..] if rest.iter().all(|size| *size == Some(*first)) => Some(*first),
            _ => None,
        };
        size.ok_or_else(|| {
            Error::config(
                "the pictures of a CopyPaste need one size: end the operations at the same fixed size, such as \
                 RandomCrop(1024, pad_if_needed=True)",
            )
        })
    }
}

impl Composition {
    pub(super) fn compose_paste(
        &self,
        numbers: Draws,
        parts: &[Option<SamplePart<'_>>],
        pictures: &mut [&mut [u8]],
    ) -> Result<Vec<Vec<u8>>> {
        let Some(Some(own)) = parts.first() else { return Err(Error::internal("a composition has no sample")) };
        let partner = parts.get(1).and_then(Option::as_ref);
        for part in [Some(own), partner].into_iter().flatten() {
            if self.size_of(part)? != self.size {
                return Err(Error::internal("a part of a CopyPaste does not have its size"));
            }
        }
        let pasted = partner.and_then(|partner| self.paste(numbers, own, partner));
        let mut pictures = pictures.iter_mut();
        for (number, member) in self.members.iter().enumerate() {
            let Role::Picture { form, .. } = &member.role else { continue };
            let Some(out) = pictures.next() else { return Err(Error::internal("a composition has no room")) };
            out.copy_from_slice(own[number].bytes);
            if let (Some(pasted), Some(partner)) = (&pasted, partner) {
                form.planes().copy_marked(partner[number].bytes, out, &pasted.covered);
            }
        }
        let still = |_: usize, point: [f64; 2]| (point, true);
        match (pasted, partner) {
            (Some(Pasted { own: left, mut own_masks, added, added_masks, .. }), Some(partner)) => {
                own_masks.extend(added_masks);
                self.write_objects(&[(own, left), (partner, added)], &own_masks, still)
            }
            _ => {
                let boxes = self.boxes_of(own).map(|(_, boxes)| boxes).unwrap_or_default();
                let masks = self.masks_of(own).map_or(&[][..], |masks| masks.bytes);
                self.write_objects(&[(own, PartObjects { kept: None, boxes })], masks, still)
            }
        }
    }

    /// Draws the objects that are pasted, and cuts them out of the sample's; `None` for a partner without objects.
    fn paste(&self, mut numbers: Draws, own: &SamplePart<'_>, partner: &SamplePart<'_>) -> Option<Pasted> {
        let (own_masks, masks) = (self.masks_of(own)?, self.masks_of(partner)?);
        let (pixels, count) = (self.size.pixels() as usize, *masks.shape.first()?);
        let mask = |number: usize| &masks.bytes[number * pixels..][..pixels];
        let mut drawn = vec![false; count];
        (0..count).for_each(|_| drawn[numbers.below(count as u32) as usize] = true);
        // An object that a crop has left without pixels cannot be pasted.
        (0..count).for_each(|number| drawn[number] &= has_pixels(mask(number)));
        if !drawn.contains(&true) {
            return None;
        }
        let (mut covered, mut added_masks) = (vec![0; pixels], Vec::new());
        for number in (0..count).filter(|number| drawn[*number]) {
            added_masks.extend_from_slice(mask(number));
            covered.iter_mut().zip(mask(number)).for_each(|(covered, pixel)| *covered |= pixel);
        }
        let (rule, mut boxes) = self.boxes_of(own).unzip();
        let (mut kept, mut left) = (Vec::new(), Vec::new());
        for (number, mask) in own_masks.bytes.chunks_exact(pixels.max(1)).enumerate() {
            let start = left.len();
            left.extend(mask.iter().zip(&covered).map(|(pixel, covered)| pixel & !covered));
            let rest = &left[start..];
            let mut is_kept = has_pixels(rest);
            if let Some(corners) = boxes.as_mut().and_then(|boxes| boxes.get_mut(number))
                && is_kept
                && rest != mask
            {
                *corners = box_of(rest, self.size.w as usize);
                is_kept = rule.is_none_or(|rule| rule.keeps(corners));
            }
            kept.push(is_kept);
            if !is_kept {
                left.truncate(start);
            }
        }
        let own = PartObjects { kept: Some(kept), boxes: boxes.unwrap_or_default() };
        let added = PartObjects {
            kept: Some(drawn),
            boxes: self.boxes_of(partner).map(|(_, boxes)| boxes).unwrap_or_default(),
        };
        Some(Pasted { own, own_masks: left, added, added_masks, covered })
    }
}

/// Returns true if a mask has a pixel. It reads all of them, which takes a tenth of the time of a search for one.
fn has_pixels(mask: &[u8]) -> bool {
    mask.iter().fold(0, |any, pixel| any | pixel) != 0
}

/// Returns the box around the pixels of a mask, which has some.
fn box_of(mask: &[u8], w: usize) -> Corners {
    let (mut columns, mut lines) = (vec![0; w], (usize::MAX, 0));
    for (line, row) in mask.chunks_exact(w.max(1)).enumerate().filter(|(_, row)| has_pixels(row)) {
        lines = (lines.0.min(line), line + 1);
        columns.iter_mut().zip(row).for_each(|(any, pixel)| *any |= pixel);
    }
    let is_used = |pixel: &u8| *pixel != 0;
    let left = columns.iter().position(is_used).unwrap_or(0);
    let right = columns.iter().rposition(is_used).map_or(0, |last| last + 1);
    [left, lines.0, right, lines.1].map(|side| side as f64)
}
