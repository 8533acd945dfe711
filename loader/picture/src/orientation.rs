//! Orientation of the camera: the value in a file's EXIF or XMP data, and its effect on regions and pixels.

use super::geometry::{Grid, Region, Scale, Size};
use super::pixels::Pixels;
use super::tiff_entry::TiffEntry;

/// EXIF orientation: rotation and mirroring from the stored picture to the upright one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orientation {
    /// Rows become columns. Mirroring comes before that, in the stored picture.
    is_transposed: bool,
    /// The stored picture is read from right to left.
    from_right: bool,
    /// The stored picture is read from below.
    from_below: bool,
}

impl Orientation {
    /// Returns the orientation with this number in EXIF; none for unknown numbers.
    fn of(number: u16) -> Self {
        Self {
            is_transposed: (5..=8).contains(&number),
            from_right: matches!(number, 2 | 3 | 7 | 8),
            from_below: matches!(number, 3 | 4 | 6 | 7),
        }
    }

    /// Reads the orientation from the first directory of a JPEG file's first EXIF segment, or else from its XMP data.
    /// Files without one, and with damaged EXIF data, keep their stored orientation.
    pub fn of_jpeg(bytes: &[u8]) -> Self {
        Self::of_metadata(segment(bytes, EXIF), segment(bytes, b"http://ns.adobe.com/xap/1.0/\0"))
    }

    /// Reads the orientation from EXIF data, or else from XMP data, as Pillow does.
    pub(crate) fn of_metadata(exif: Option<&[u8]>, xmp: Option<&[u8]>) -> Self {
        exif.and_then(number_in_exif).or_else(|| xmp.and_then(number_in_xmp)).map_or(Self::default(), Self::of)
    }

    /// Returns true if the stored picture is upright.
    pub fn is_stored(self) -> bool {
        self == Self::default()
    }

    /// Returns the upright size of a picture with the stored size `size`.
    pub fn oriented(self, size: Size) -> Size {
        if self.is_transposed { Size { w: size.h, h: size.w } } else { size }
    }

    /// Returns the grid of a picture with the stored size `size` that is decoded at `scale`.
    pub fn grid(self, size: Size, scale: Scale) -> Grid {
        let by = scale.divisor();
        let beside = |side: u32, is_turned: bool| if is_turned { side.next_multiple_of(by) - side } else { 0 };
        let (across, down) = (beside(size.w, self.from_right), beside(size.h, self.from_below));
        let (left, above) = if self.is_transposed { (down, across) } else { (across, down) };
        Grid { by, left, above }
    }

    /// Maps `region` of the upright picture to the stored one, which has `size`.
    pub fn stored(self, region: Region, size: Size) -> Region {
        let Region { x, y, w, h } = region;
        let (x, y, w, h) = if self.is_transposed { (y, x, h, w) } else { (x, y, w, h) };
        Region {
            x: if self.from_right { size.w - x - w } else { x },
            y: if self.from_below { size.h - y - h } else { y },
            w,
            h,
        }
    }

    /// Writes `region` of the upright picture to `out`. `stored` holds at least that part of the stored picture, which
    /// has `size`.
    pub fn apply(self, stored: &Pixels, size: Size, region: Region, out: &mut Pixels) {
        let part = self.stored(region, size);
        let have = stored.region();
        let (pixels, stride) = (stored.rgb().as_chunks::<3>().0, have.w as usize);
        let corner = (part.y - have.y) as usize * stride + (part.x - have.x) as usize;
        let (w, h) = (part.w as usize, part.h as usize);
        let rows = out.start(region, 3).as_chunks_mut::<3>().0.chunks_exact_mut(region.w as usize);
        for (y, row) in rows.enumerate() {
            for (x, pixel) in row.iter_mut().enumerate() {
                let (x, y) = if self.is_transposed { (y, x) } else { (x, y) };
                let x = if self.from_right { w - 1 - x } else { x };
                let y = if self.from_below { h - 1 - y } else { y };
                *pixel = pixels[corner + y * stride + x];
            }
        }
    }
}

/// Bytes in front of EXIF data.
const EXIF: &[u8] = b"Exif\0\0";

/// Returns the data of a JPEG's first application segment with this `name`, before its first scan.
fn segment<'a>(bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = bytes.strip_prefix(&[0xff, 0xd8])?;
    loop {
        let [0xff, code, high, low, ..] = *rest else { return None };
        if code == 0xff {
            // Fill byte.
            rest = &rest[1..];
            continue;
        }
        if matches!(code, 0x00 | 0x01 | 0xd0..=0xda) {
            return None;
        }
        let body = rest.get(4..2 + usize::from(u16::from_be_bytes([high, low])))?;
        match body.strip_prefix(name) {
            Some(data) if code == 0xe1 => return Some(data),
            _ => rest = &rest[4 + body.len()..],
        }
    }
}

/// Reads the orientation's number from EXIF data, with or without the name in front that JPEG files have.
fn number_in_exif(data: &[u8]) -> Option<u16> {
    let tiff = data.strip_prefix(EXIF).unwrap_or(data);
    number(tiff.strip_prefix(EXIF).unwrap_or(tiff))
}

/// Reads the orientation's number from XMP data, by its first mention as Pillow does.
fn number_in_xmp(data: &[u8]) -> Option<u16> {
    const NAME: &[u8] = b"tiff:Orientation";
    let digit = |rest: &[u8]| match rest.strip_prefix(b"=\"").or_else(|| rest.strip_prefix(b">"))? {
        [digit @ b'0'..=b'9', ..] => Some(u16::from(digit - b'0')),
        _ => None,
    };
    let ends = data.windows(NAME.len()).enumerate().filter(|(_, name)| *name == NAME).map(|(at, _)| at + NAME.len());
    ends.into_iter().find_map(|end| digit(&data[end..]))
}

/// Reads the orientation's number from TIFF's first directory. It may be a long number: the standard does not allow
/// that, but readers accept it.
fn number(tiff: &[u8]) -> Option<u16> {
    const ORIENTATION: u32 = 0x112;
    TiffEntry::find(tiff, ORIENTATION)?.number(tiff)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// File without pixels: this orientation in either byte order, after a different segment.
    fn file(number: u16, is_big: bool) -> Vec<u8> {
        let short = |v: u16| if is_big { v.to_be_bytes() } else { v.to_le_bytes() };
        let long = |v: u32| if is_big { v.to_be_bytes() } else { v.to_le_bytes() };
        let mut tiff = if is_big { b"MM\0*".to_vec() } else { b"II*\0".to_vec() };
        tiff.extend(long(8));
        tiff.extend(short(2));
        for (tag, value) in [(0x10f, 77), (0x112, number)] {
            tiff.extend(short(tag));
            tiff.extend(short(3));
            tiff.extend(long(1));
            tiff.extend(short(value));
            tiff.extend([0, 0]);
        }
        let mut out = vec![0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xff, 0xe1];
        out.extend((8 + tiff.len() as u16).to_be_bytes());
        out.extend(b"Exif\0\0");
        out.extend(tiff);
        out.extend([0xff, 0xda]);
        out
    }

    #[test]
    fn the_orientation_is_read_in_either_byte_order() {
        for number in 1..=8 {
            assert_eq!(Orientation::of_jpeg(&file(number, true)), Orientation::of(number));
            assert_eq!(Orientation::of_jpeg(&file(number, false)), Orientation::of(number));
        }
        // As a longer number.
        let mut long = file(6, false);
        let entry = long.windows(2).rposition(|tag| tag == [0x12, 1]).expect("the entry");
        long[entry + 2] = 4;
        assert_eq!(Orientation::of_jpeg(&long), Orientation::of(6));
        assert!(Orientation::of(1).is_stored() && !Orientation::of(5).is_stored());
    }

    #[test]
    fn the_orientation_in_xmp_data_is_read_where_exif_data_has_none() {
        let with = |xmp: &str, exif: &[u8]| {
            let body = [b"http://ns.adobe.com/xap/1.0/\0", xmp.as_bytes()].concat();
            let length = (2 + body.len() as u16).to_be_bytes();
            [&[0xff, 0xd8, 0xff, 0xe1][..], &length, &body, exif].concat()
        };
        let exif = &file(6, true)[2..];
        assert_eq!(Orientation::of_jpeg(&with("<x tiff:Orientation=\"8\"/>", &[])), Orientation::of(8));
        assert_eq!(Orientation::of_jpeg(&with("<tiff:Orientation>3</tiff:Orientation>", &[])), Orientation::of(3));
        assert_eq!(Orientation::of_jpeg(&with("tiff:Orientation='3' tiff:Orientation=", &[])), Orientation::of(1));
        assert_eq!(Orientation::of_jpeg(&with("tiff:Orientation=\"8\"", exif)), Orientation::of(6));
        let twice = [EXIF, EXIF, &exif[17..]].concat();
        assert_eq!(Orientation::of_metadata(Some(&twice), None), Orientation::of(6));
    }

    #[test]
    fn a_truncated_or_invalid_header_means_no_orientation() {
        let whole = file(6, false);
        // Without the end of the value there is no orientation.
        for cut in 0..whole.len() - 4 {
            assert!(Orientation::of_jpeg(&whole[..cut]).is_stored(), "{cut}");
        }
        assert!(Orientation::of_jpeg(&file(0, true)).is_stored());
        assert!(Orientation::of_jpeg(&file(9, true)).is_stored());
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut odd = whole.clone();
                odd[at] = value;
                let _ = Orientation::of_jpeg(&odd);
            }
        }
    }

    #[test]
    fn a_region_of_the_oriented_picture_is_the_same_region_of_the_whole_one() {
        let size = Size { w: 5, h: 3 };
        let mut stored = Pixels::default();
        let out = stored.start(Region::all(size), 3);
        out.iter_mut().enumerate().for_each(|(i, b)| *b = i as u8);
        for number in 1..=8 {
            let orientation = Orientation::of(number);
            let all = Region::all(orientation.oriented(size));
            let mut whole = Pixels::default();
            orientation.apply(&stored, size, all, &mut whole);
            let region = Region { x: 1, y: 1, w: 2, h: 1 };
            let mut part = Pixels::default();
            orientation.apply(&stored, size, region, &mut part);
            let start = (all.w + 1) as usize * 3;
            assert_eq!(part.rgb(), &whole.rgb()[start..start + 6], "{number}");
            // A part of the stored picture is enough.
            let wanted = orientation.stored(region, size);
            let mut cut = Pixels::default();
            let out = cut.start(wanted, 3);
            for (y, row) in (wanted.y..).zip(out.chunks_exact_mut(wanted.w as usize * 3)) {
                let from = (y * size.w + wanted.x) as usize * 3;
                row.copy_from_slice(&stored.rgb()[from..from + row.len()]);
            }
            let mut again = Pixels::default();
            orientation.apply(&cut, size, region, &mut again);
            assert_eq!(part.rgb(), again.rgb(), "{number}");
        }
        // A quarter turn to the right: the stored picture's lower left corner is in the upper left.
        let mut turned = Pixels::default();
        Orientation::of(6).apply(&stored, size, Region::all(Size { w: 3, h: 5 }), &mut turned);
        assert_eq!(turned.rgb()[..3], stored.rgb()[30..33]);
    }
}
