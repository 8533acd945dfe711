//! What must hold for any bytes that are decoded as WebP: no panic, and every part has the pixels of the whole. Damaged
//! seeds go through here on every run, and what the fuzzer makes.

use forebay_loader::decode::geometry::{Region, Size};
use forebay_loader::decode::pixels::{Content, Pixels};
use forebay_loader::decode::webp;

/// Larger pictures take their time and show nothing that smaller ones do not.
const PIXELS_MAX: u64 = 1 << 18;

/// Says whether the bytes are a picture.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Ok(Size { w, h }) = webp::size(bytes) else { return false };
    if u64::from(w) * u64::from(h) > PIXELS_MAX {
        return false;
    }
    let (mut whole, mut part) = (Pixels::new(), Pixels::new());
    let all = Region { x: 0, y: 0, w, h };
    let wanted = Region { x: w / 3, y: h / 3, w: w.div_ceil(3), h: h.div_ceil(3) };
    let outcome = webp::decode(bytes, all, Content::Colours, &mut whole);
    assert_eq!(webp::decode(bytes, wanted, Content::Colours, &mut part).is_ok(), outcome.is_ok());
    if outcome.is_err() {
        return false;
    }
    let rows = (wanted.y..wanted.y + wanted.h).flat_map(|y| {
        let start = (y as usize * w as usize + wanted.x as usize) * 3;
        &whole.rgb()[start..start + wanted.w as usize * 3]
    });
    assert!(rows.eq(part.rgb()), "other pixels in {wanted:?}");
    true
}
