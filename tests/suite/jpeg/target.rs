//! What must hold for any bytes: our decoder and libjpeg-turbo make the same pixels, or both refuse. Damaged seeds go
//! through here on every run, and what the fuzzer makes.
//!
//! Fuzzed so far, with coverage and without sanitizers: some 4 million inputs on earlier forms of the decoder and of this
//! check, 1.7 million with smaller pictures in it: nothing was found that is not mended. What both decoders share, such as what
//! they take for harmless, shows only where libjpeg warns of nothing at all.

use forebay_loader::decode::geometry::{Region, Scale, Size};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder, RowIndexer, Turbo};
use forebay_loader::decode::pixels::Pixels;

/// Larger pictures take their time and show nothing that smaller ones do not.
const PIXELS_MAX: u64 = 1 << 18;

/// The pixels of `wanted`, which `pixels` holds at least.
fn cut(pixels: &Pixels, wanted: Region) -> Vec<u8> {
    let have = pixels.region();
    let row = |y: u32| {
        let start = ((y - have.y) * have.w + wanted.x - have.x) as usize * 3;
        &pixels.rgb()[start..start + wanted.w as usize * 3]
    };
    (wanted.y..wanted.y + wanted.h).flat_map(row).copied().collect()
}

/// A part that depends on the bytes alone.
fn part(bytes: &[u8], size: Size) -> Region {
    let mut draws =
        bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    let mut below = |n: u32| {
        draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((draws >> 33) % u64::from(n)) as u32
    };
    let (x, y) = (below(size.w), below(size.h));
    Region { x, y, w: 1 + below(size.w - x), h: 1 + below(size.h - y) }
}

/// Says whether the bytes are a picture.
pub(crate) fn agree(bytes: &[u8]) -> bool {
    let (mut own, mut turbo) = (Decoder::new(), Turbo::new().expect("memory for an instance"));
    let (found, same) = (turbo.size(bytes), own.size(bytes));
    assert_eq!(found.as_ref().ok(), same.as_ref().ok(), "{found:?} and {same:?}");
    let Ok(size) = found else { return false };
    if u64::from(size.w) * u64::from(size.h) > PIXELS_MAX {
        return false;
    }
    let (mut whole, mut pixels) = (Pixels::new(), Pixels::new());
    let all = Region::all(size);
    let (expected, outcome) = (turbo.decode(bytes, all, &mut whole), own.decode(bytes, all, &mut pixels));
    assert_eq!(expected.is_ok(), outcome.is_ok(), "{expected:?} and {outcome:?}");
    let wanted = part(bytes, size);
    if expected.is_err() {
        // Damage behind the part may go unnoticed, elsewhere not; either way this comes back.
        let _ = own.decode(bytes, wanted, &mut pixels);
        return false;
    }
    assert!(whole.rgb() == cut(&pixels, all), "other pixels");
    for scale in [Scale::Half, Scale::Quarter, Scale::Eighth] {
        let all = Region::all(scale.size(size));
        let (mut expected, mut found) = (Pixels::new(), Pixels::new());
        let outcomes = (
            turbo.decode_scaled(bytes, scale, all, &mut expected),
            own.decode_scaled(bytes, &[], scale, all, &mut found),
        );
        assert_eq!(outcomes.0.is_ok(), outcomes.1.is_ok(), "{outcomes:?} at {scale:?}");
        assert!(outcomes.0.is_err() || expected.rgb() == found.rgb(), "other pixels at {scale:?}");
    }
    let mut row_index = Vec::new();
    if RowIndexer::default().append(bytes, &mut row_index) {
        own.decode_indexed(bytes, &row_index, wanted, &mut pixels).expect("what was indexed, decodes");
        assert!(cut(&whole, wanted) == cut(&pixels, wanted), "other pixels with a row index in {wanted:?}");
        assert_eq!(own.take_row_index_counts().refused, 0);
    }
    let outcome = own.decode(bytes, wanted, &mut pixels);
    if let Ok(None) = turbo.decode_damaged(bytes, Scale::Full, &mut Pixels::new()) {
        // Without a warning from libjpeg every part is a picture, whatever we take for harmless.
        assert!(outcome.is_ok(), "{outcome:?} in {wanted:?}");
    }
    if outcome.is_err() || cut(&whole, wanted) != cut(&pixels, wanted) {
        // Where libjpeg-turbo overlooks damage, its parts may differ from its whole. Then this decoder left it the part.
        let expected = turbo.decode(bytes, wanted, &mut whole);
        assert_eq!(expected.is_ok(), outcome.is_ok(), "{expected:?} and {outcome:?} in {wanted:?}");
        assert!(outcome.is_err() || cut(&whole, wanted) == cut(&pixels, wanted), "other pixels in {wanted:?}");
    }
    true
}
