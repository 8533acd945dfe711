//! Groups of pictures that are decoded together, as many as fit into scratch memory.

use crate::kernel::Picture;
use crate::nvjpeg::Extent;
use forebay_loader::decode::EncodedPicture;
use forebay_loader::decode::geometry::{Region, Size};
use forebay_loader::delivery::RowPicture;
use forebay_loader::{Error, Result};

/// Limit of the decoded pixels of one group, unless it is a single picture: 256 crops of about 1,100 x 1,100.
pub(super) const PIXEL_BYTES_MAX: usize = 1 << 30;

/// Decoded bytes from which a picture is large: 22 million pixels. A device without memory for a large picture may
/// still have some for smaller ones.
pub(super) const LARGE_BYTES: usize = 64 << 20;

/// Alignment of each picture's pixels: the size of the device's memory transactions.
const ALIGN_BYTES: usize = 256;

/// Pixels beyond its own that a chroma sample of half resolution influences.
const CHROMA_REACH: u32 = 2;

/// Returns the region of a picture of `size` to decode for `crop`. A partial region is larger than the crop, because
/// libraries blend chroma wrongly at the edges of a region that begins between two chroma samples.
pub(super) fn region(crop: Region, size: Size, extent: Extent) -> Region {
    if extent == Extent::Whole {
        return Region::all(size);
    }
    let widened = |start: u32, len: u32, end: u32| {
        let from = start.saturating_sub(CHROMA_REACH) & !1;
        (from, (start + len + CHROMA_REACH).next_multiple_of(2).min(end) - from)
    };
    let ((x, w), (y, h)) = (widened(crop.x, crop.w, size.w), widened(crop.y, crop.h, size.h));
    Region { x, y, w, h }
}

/// Picture and its offset in scratch memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupItem {
    /// Index in the batch's list of pictures.
    pub(super) number: usize,
    pub(super) picture: RowPicture,
    /// Row in the finished batch.
    pub(super) to_row: u32,
    /// Offset of its pixels in scratch memory.
    pub(super) at: usize,
}

impl GroupItem {
    /// Returns the region of the picture to decode.
    pub(super) fn region(&self, extent: Extent) -> Region {
        region(self.picture.picture.stage.crop, self.picture.picture.size, extent)
    }

    /// Returns the bytes from one row of its pixels to the next.
    pub(super) fn pitch(&self, extent: Extent) -> usize {
        self.region(extent).w as usize * 3
    }

    /// Returns the bytes that its pixels take.
    fn bytes(&self, extent: Extent) -> usize {
        (self.pitch(extent) * self.region(extent).h as usize).next_multiple_of(ALIGN_BYTES)
    }

    /// Returns true if its pixels take at least [`LARGE_BYTES`].
    pub(super) fn is_large(&self, extent: Extent) -> bool {
        self.bytes(extent) >= LARGE_BYTES
    }

    /// Returns its output and its row in the slot.
    pub(super) fn key(&self) -> (usize, usize) {
        (self.picture.output, self.picture.row)
    }

    /// Returns the kernels' description, for scratch memory at `scratch`. The byte at `undecoded` is set if the picture
    /// is undecoded.
    pub(super) fn for_kernel(&self, scratch: u64, extent: Extent, undecoded: u64) -> Result<Picture> {
        let EncodedPicture { stage, erased, .. } = &self.picture.picture;
        let (pixels, pitch) = (scratch + self.at as u64, self.pitch(extent) as u64);
        let picture = Picture::new(pixels, pitch, self.region(extent), stage, self.to_row, undecoded)?;
        Ok(erased.map_or(picture, |erased| picture.erased(erased)))
    }
}

/// Pictures that are decoded together, ordered by output.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) items: Vec<GroupItem>,
    /// Bytes of all pixels, which is also the offset of the kernel's list of pictures.
    pub(super) pixel_bytes: usize,
}

impl Group {
    /// Splits a group of at least two pictures into large and small ones, or else into halves.
    pub(super) fn split(self, extent: Extent) -> [Self; 2] {
        let (large, mut front): (Vec<_>, Vec<_>) = self.items.into_iter().partition(|item| item.is_large(extent));
        let back = match (large.is_empty(), front.is_empty()) {
            (true, _) => front.split_off(front.len() / 2),
            (false, false) => large,
            (false, true) => {
                front = large;
                front.split_off(front.len() / 2)
            }
        };
        [front, back].map(|items| {
            let mut part = Self::default();
            items.into_iter().for_each(|item| part.push(item, extent));
            part
        })
    }

    /// Returns true if one of its pictures is large.
    pub(super) fn has_large(&self, extent: Extent) -> bool {
        self.items.iter().any(|item| item.is_large(extent))
    }

    /// Appends a picture.
    fn push(&mut self, item: GroupItem, extent: Extent) {
        self.items.push(GroupItem { at: self.pixel_bytes, ..item });
        self.pixel_bytes += item.bytes(extent);
    }

    /// Returns the bytes of scratch memory: the pixels and the kernel's list.
    pub(super) fn scratch_bytes(&self) -> usize {
        self.pixel_bytes + self.items.len() * size_of::<Picture>()
    }
}

/// Cuts `pictures` into nonempty groups of at most `bytes_max` bytes of pixels or of a single picture,
/// with room for `extent` of each picture. `rows` are the rows that the batch keeps, ascending.
///
/// # Errors
///
/// `Internal` for a picture in a row that the batch does not keep.
pub(super) fn cut(pictures: &[RowPicture], rows: &[usize], extent: Extent, bytes_max: usize) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for (number, picture) in pictures.iter().enumerate() {
        let to_row = rows.binary_search(&picture.row);
        let to_row = to_row.map_err(|_| Error::internal("a picture is in a row that its batch does not keep"))?;
        let item = GroupItem { number, picture: *picture, to_row: to_row as u32, at: 0 };
        if groups.last().is_none_or(|group| group.pixel_bytes + item.bytes(extent) > bytes_max) {
            groups.push(Group::default());
        }
        groups.last_mut().ok_or_else(|| Error::internal("a group is missing"))?.push(item, extent);
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::decode::geometry::Stage;

    fn picture(output: usize, row: usize, side: u32) -> RowPicture {
        let size = Size { w: side, h: side };
        let picture = EncodedPicture { bytes: 1, size, stage: Stage::identity(size), erased: None };
        RowPicture { output, row, at: 0, picture }
    }

    #[test]
    fn pictures_are_grouped_by_scratch_memory_and_keep_their_numbers() {
        let pictures = [picture(0, 1, 10), picture(0, 3, 10), picture(1, 3, 100), picture(1, 4, 10)];
        let groups = cut(&pictures, &[1, 3, 4], Extent::Part, 1100).expect("cut");
        let numbers = |group: &Group| group.items.iter().map(|i| (i.number, i.to_row, i.at)).collect::<Vec<_>>();
        // 300 bytes take 512. The large picture has a separate group, although it exceeds the limit.
        assert_eq!(
            groups.iter().map(numbers).collect::<Vec<_>>(),
            [vec![(0, 0, 0), (1, 1, 512)], vec![(2, 1, 0)], vec![(3, 2, 0)]]
        );
        assert_eq!(groups[0].scratch_bytes(), 1024 + 2 * size_of::<Picture>());
        let all = cut(&pictures, &[1, 3, 4], Extent::Part, 1 << 20).expect("cut").remove(0);
        let halves = all.split(Extent::Part);
        assert_eq!(
            halves.iter().map(numbers).collect::<Vec<_>>(),
            [vec![(0, 0, 0), (1, 1, 512)], vec![(2, 1, 0), (3, 2, 30_208)]]
        );
        assert_eq!(halves.map(|group| group.pixel_bytes), [1024, 30_720]);
        let mixed = [picture(0, 1, 10), picture(0, 3, 6000), picture(1, 3, 100), picture(1, 4, 5000)];
        let mixed = cut(&mixed, &[1, 3, 4], Extent::Part, 1 << 30).expect("cut").remove(0);
        assert!(mixed.has_large(Extent::Part));
        let [usual, large] = mixed.split(Extent::Part);
        assert!(!usual.has_large(Extent::Part) && large.has_large(Extent::Part));
        assert_eq!(
            [numbers(&usual), numbers(&large)],
            [vec![(0, 0, 0), (2, 1, 512)], vec![(1, 1, 0), (3, 2, 108_000_000)]]
        );
        assert_eq!(large.split(Extent::Part).map(|group| numbers(&group)), [vec![(1, 1, 0)], vec![(3, 2, 0)]]);
        assert!(cut(&[], &[1, 3, 4], Extent::Part, 1 << 20).expect("cut").is_empty());
    }

    #[test]
    fn regions_are_widened_to_chroma_samples_within_the_picture() {
        let mut one = picture(0, 0, 99);
        let mut region = |x, y, w, h| {
            one.picture.stage.crop = Region { x, y, w, h };
            let groups = cut(&[one], &[0], Extent::Part, 1 << 20).expect("cut");
            assert_eq!(groups[0].items[0].region(Extent::Whole), Region::all(one.picture.size));
            let Region { x, y, w, h } = groups[0].items[0].region(Extent::Part);
            (x, y, w, h)
        };
        assert_eq!(region(0, 0, 99, 99), (0, 0, 99, 99));
        assert_eq!(region(11, 20, 10, 11), (8, 18, 16, 16));
        assert_eq!(region(1, 96, 98, 3), (0, 94, 99, 5));
        assert_eq!(region(97, 98, 1, 1), (94, 96, 5, 3));
    }

    #[test]
    fn a_row_that_the_batch_does_not_keep_is_an_error() {
        assert!(cut(&[picture(0, 2, 10)], &[1, 3], Extent::Part, 1000).is_err());
    }
}
