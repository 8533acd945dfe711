//! Which pictures are decoded together: as many as the scratch memory takes.

use crate::kernel::Picture;
use crate::nvjpeg::Extent;
use forebay_loader::decode::geometry::{Region, Size};
use forebay_loader::delivery::RowPicture;
use forebay_loader::{Error, Result};

/// Decoded pixels of one group, unless a single picture has more: 256 crops of 1,100 x 1,100.
pub(super) const PIXEL_BYTES_MAX: usize = 1 << 30;

/// Decoded pixels of a picture that is large: of 22 million pixels. Where there is no memory for such a one, there may be for others.
pub(super) const LARGE_BYTES: usize = 64 << 20;

/// Where pixels start: what the device reads at once.
const ALIGN_BYTES: usize = 256;

/// Pixels that chroma's samples reach beyond their own at half resolution.
const BLENDED: u32 = 2;

/// What of a picture of `size` is decoded for `crop`. A part is more than the crop, for at the edges of one that begins between
/// two chroma samples libraries blend with what is not there.
pub(super) fn region(crop: Region, size: Size, extent: Extent) -> Region {
    if extent == Extent::Whole {
        return Region::all(size);
    }
    let widened = |start: u32, len: u32, end: u32| {
        let from = start.saturating_sub(BLENDED) & !1;
        (from, (start + len + BLENDED).next_multiple_of(2).min(end) - from)
    };
    let ((x, w), (y, h)) = (widened(crop.x, crop.w, size.w), widened(crop.y, crop.h, size.h));
    Region { x, y, w, h }
}

/// A picture and its place in scratch memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Its number in the batch's list.
    pub(super) number: usize,
    pub(super) picture: RowPicture,
    /// Which row of the finished batch it becomes.
    pub(super) to_row: u32,
    /// Bytes before its pixels.
    pub(super) at: usize,
}

impl Item {
    /// What of the picture is decoded.
    pub(super) fn region(&self, extent: Extent) -> Region {
        region(self.picture.picture.stage.crop, self.picture.picture.size, extent)
    }

    /// Bytes from row to row of its pixels.
    pub(super) fn pitch(&self, extent: Extent) -> usize {
        self.region(extent).w as usize * 3
    }

    /// Bytes of its place.
    fn bytes(&self, extent: Extent) -> usize {
        (self.pitch(extent) * self.region(extent).h as usize).next_multiple_of(ALIGN_BYTES)
    }

    /// Whether it is much larger than pictures are.
    pub(super) fn is_large(&self, extent: Extent) -> bool {
        self.bytes(extent) >= LARGE_BYTES
    }

    /// Which output it is of, and which row of the slot.
    pub(super) fn key(&self) -> (usize, usize) {
        (self.picture.output, self.picture.row)
    }

    /// What the kernels are told, for scratch memory at `scratch`; whether it was left out is said at `left_out`.
    pub(super) fn for_kernel(&self, scratch: u64, extent: Extent, left_out: u64) -> Result<Picture> {
        let (pixels, stage) = (scratch + self.at as u64, &self.picture.picture.stage);
        Picture::new(pixels, self.pitch(extent) as u64, self.region(extent), stage, self.to_row, left_out)
    }
}

/// Pictures that are decoded together, ordered by output.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) items: Vec<Item>,
    /// Bytes of all pixels, and where the kernel's list of pictures starts.
    pub(super) pixel_bytes: usize,
}

impl Group {
    /// The same pictures, of which there are at least two, in two groups: large ones apart from others, or else halves.
    pub(super) fn parts(self, extent: Extent) -> [Self; 2] {
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

    /// Whether one of its pictures is large.
    pub(super) fn has_large(&self, extent: Extent) -> bool {
        self.items.iter().any(|item| item.is_large(extent))
    }

    /// Puts a picture behind the others.
    fn push(&mut self, item: Item, extent: Extent) {
        self.items.push(Item { at: self.pixel_bytes, ..item });
        self.pixel_bytes += item.bytes(extent);
    }

    /// Bytes of scratch memory: the pixels and the kernel's list.
    pub(super) fn scratch_bytes(&self) -> usize {
        self.pixel_bytes + self.items.len() * size_of::<Picture>()
    }
}

/// Cuts those of `pictures` that are new into groups, none of them empty, of at most `bytes_max` bytes of pixels or a single
/// picture; `rows` are the rows that the batch keeps, ascending. Each has a place that is large enough for `extent`.
///
/// # Errors
///
/// `Internal` for a picture in a row that the batch does not keep.
pub(super) fn cut(
    pictures: &[RowPicture],
    rows: &[usize],
    is_new: impl Fn(&RowPicture) -> bool,
    extent: Extent,
    bytes_max: usize,
) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for (number, picture) in pictures.iter().enumerate().filter(|(_, picture)| is_new(picture)) {
        let to_row = rows.binary_search(&picture.row);
        let to_row = to_row.map_err(|_| Error::internal("a picture lies in a row that its batch does not keep"))?;
        let item = Item { number, picture: *picture, to_row: to_row as u32, at: 0 };
        if groups.last().is_none_or(|group| group.pixel_bytes + item.bytes(extent) > bytes_max) {
            groups.push(Group::default());
        }
        groups.last_mut().ok_or_else(|| Error::internal("no group"))?.push(item, extent);
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::decode::EncodedPicture;
    use forebay_loader::decode::geometry::Stage;

    fn picture(output: usize, row: usize, side: u32) -> RowPicture {
        let size = Size { w: side, h: side };
        RowPicture { output, row, at: 0, picture: EncodedPicture { bytes: 1, size, stage: Stage::identity(size) } }
    }

    #[test]
    fn pictures_are_cut_where_the_scratch_memory_ends_and_keep_their_numbers() {
        let pictures = [picture(0, 1, 10), picture(0, 3, 10), picture(1, 3, 100), picture(1, 4, 10)];
        let groups = cut(&pictures, &[1, 3, 4], |_| true, Extent::Part, 1100).expect("cut");
        let numbers = |group: &Group| group.items.iter().map(|i| (i.number, i.to_row, i.at)).collect::<Vec<_>>();
        // 300 bytes take 512; the large one is alone, though it is more than fits.
        assert_eq!(
            groups.iter().map(numbers).collect::<Vec<_>>(),
            [vec![(0, 0, 0), (1, 1, 512)], vec![(2, 1, 0)], vec![(3, 2, 0)]]
        );
        assert_eq!(groups[0].scratch_bytes(), 1024 + 2 * size_of::<Picture>());
        let all = cut(&pictures, &[1, 3, 4], |_| true, Extent::Part, 1 << 20).expect("cut").remove(0);
        let halves = all.parts(Extent::Part);
        assert_eq!(
            halves.iter().map(numbers).collect::<Vec<_>>(),
            [vec![(0, 0, 0), (1, 1, 512)], vec![(2, 1, 0), (3, 2, 30_208)]]
        );
        assert_eq!(halves.map(|group| group.pixel_bytes), [1024, 30_720]);
        let mixed = [picture(0, 1, 10), picture(0, 3, 6000), picture(1, 3, 100), picture(1, 4, 5000)];
        let mixed = cut(&mixed, &[1, 3, 4], |_| true, Extent::Part, 1 << 30).expect("cut").remove(0);
        assert!(mixed.has_large(Extent::Part));
        let [usual, large] = mixed.parts(Extent::Part);
        assert!(!usual.has_large(Extent::Part) && large.has_large(Extent::Part));
        assert_eq!(
            [numbers(&usual), numbers(&large)],
            [vec![(0, 0, 0), (2, 1, 512)], vec![(1, 1, 0), (3, 2, 108_000_000)]]
        );
        assert_eq!(large.parts(Extent::Part).map(|group| numbers(&group)), [vec![(1, 1, 0)], vec![(3, 2, 0)]]);
        let new = cut(&pictures, &[1, 3, 4], |picture| picture.row == 3, Extent::Part, 1 << 20).expect("cut");
        assert_eq!(new.iter().map(numbers).collect::<Vec<_>>(), [vec![(1, 1, 0), (2, 1, 512)]]);
        assert!(cut(&pictures, &[1, 3, 4], |_| false, Extent::Part, 1 << 20).expect("cut").is_empty());
    }

    #[test]
    fn parts_begin_and_end_with_chroma_and_have_more_beside_them_as_far_as_the_picture_goes() {
        let mut one = picture(0, 0, 99);
        let mut region = |x, y, w, h| {
            one.picture.stage.crop = Region { x, y, w, h };
            let groups = cut(&[one], &[0], |_| true, Extent::Part, 1 << 20).expect("cut");
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
        assert!(cut(&[picture(0, 2, 10)], &[1, 3], |_| true, Extent::Part, 1000).is_err());
    }
}
