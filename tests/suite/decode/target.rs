//! Properties of the decoders of pictures that are no JPEGs, for any bytes: no panic, and every part has the pixels of
//! the whole. Damaged seeds are tested on every run, and the fuzzer's inputs in fuzzing.

use forebay_loader::decode::formats;
use forebay_loader::decode::geometry::{Region, Size};
use forebay_loader::decode::pixels::{Content, Pixels};

/// Larger pictures take long and test nothing more.
const PIXELS_MAX: u64 = 1 << 18;

/// Returns true if the bytes are a picture.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Ok(format) = formats::find(bytes) else { return false };
    let Ok(Size { w, h }) = format.size(bytes) else { return false };
    let _ = (format.orientation(bytes), format.is_deep(bytes));
    if u64::from(w) * u64::from(h) > PIXELS_MAX {
        return false;
    }
    let (mut whole, mut part) = (Pixels::default(), Pixels::default());
    let all = Region { x: 0, y: 0, w, h };
    let region = Region { x: w / 3, y: h / 3, w: w.div_ceil(3), h: h.div_ceil(3) };
    let mut opacity = Pixels::default();
    for content in [Content::Labels, Content::Deep, Content::Opacity] {
        let _ = format.decode(bytes, region, content, &mut part, Some(&mut opacity));
    }
    let outcome = format.decode(bytes, all, Content::Colours, &mut whole, None);
    // A file that is read from the top may be damaged below the region.
    let part_outcome = format.decode(bytes, region, Content::Colours, &mut part, None);
    assert!(part_outcome.is_ok() == outcome.is_ok() || part_outcome.is_ok() && !format.is_decoded_whole());
    if outcome.is_err() {
        return false;
    }
    let rows = (region.y..region.y + region.h).flat_map(|y| {
        let start = (y as usize * w as usize + region.x as usize) * 3;
        &whole.rgb()[start..start + region.w as usize * 3]
    });
    assert!(rows.eq(part.rgb()), "different pixels in {region:?}");
    true
}
