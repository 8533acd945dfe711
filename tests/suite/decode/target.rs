//! Properties of the WebP decoder for any bytes: no panic, and every part has the pixels of the whole. Damaged seeds
//! are tested on every run, and the fuzzer's inputs in fuzzing.

use forebay_loader::decode::geometry::{Region, Size};
use forebay_loader::decode::pixels::{Content, Pixels};
use forebay_loader::decode::webp;

/// Larger pictures take long and test nothing more.
const PIXELS_MAX: u64 = 1 << 18;

/// Returns true if the bytes are a picture.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Ok(Size { w, h }) = webp::size(bytes) else { return false };
    if u64::from(w) * u64::from(h) > PIXELS_MAX {
        return false;
    }
    let (mut whole, mut part) = (Pixels::default(), Pixels::default());
    let all = Region { x: 0, y: 0, w, h };
    let region = Region { x: w / 3, y: h / 3, w: w.div_ceil(3), h: h.div_ceil(3) };
    let outcome = webp::decode(bytes, all, Content::Colours, &mut whole);
    assert_eq!(webp::decode(bytes, region, Content::Colours, &mut part).is_ok(), outcome.is_ok());
    if outcome.is_err() {
        return false;
    }
    let rows = (region.y..region.y + region.h).flat_map(|y| {
        let start = (y as usize * w as usize + region.x as usize) * 3;
        &whole.rgb()[start..start + region.w as usize * 3]
    });
    assert!(rows.eq(part.rgb()), "other pixels in {region:?}");
    true
}
