//! What must hold for any bytes: our decoder and libjpeg-turbo make the same pixels, or both refuse; and a row index of any
//! bytes does no harm. Damaged seeds go through here on every run, and what the fuzzer makes.
//!
//! An input is a file. Behind the file there may be a [`Change`] to its row index.
//!
//! Fuzzed so far, with coverage: some 4 million inputs on earlier forms of the decoder and of this check and 1.7 million with
//! smaller pictures in it, without sanitizers; then, with AddressSanitizer in all that is Rust, 7.9 million in 1.5 hours of one
//! core; with changes to row indexes, and seeds of every kind of file, 1.1 million in 18 minutes. Nothing was found that is not
//! mended. What both decoders share, such as what they take for harmless, shows only where libjpeg warns of nothing at all.

use forebay_loader::decode::geometry::{Region, Scale, Size};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder, RowIndexCounts, RowIndexer, Turbo};
use forebay_loader::decode::pixels::Pixels;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Larger pictures take their time and show nothing that smaller ones do not.
const PIXELS_MAX: u64 = 1 << 18;

/// How an input ends that has a change.
const CHANGE: &[u8] = b"rows";

/// What happens to a row index before it is used: at one place bytes go and others come. In an input it is
///
/// ```text
/// the bytes that come, as many as the next byte says
/// u8    how many they are
/// u8    where, modulo one more than the bytes of the index
/// u8    how many go, or all that there are from there on
/// rows
/// ```
pub(crate) struct Change<'a> {
    come: &'a [u8],
    at: u8,
    go: u8,
}

impl<'a> Change<'a> {
    /// The file in an input, and the change if there is one.
    pub(crate) fn split(input: &'a [u8]) -> (&'a [u8], Option<Self>) {
        Self::try_split(input).map_or((input, None), |(file, change)| (file, Some(change)))
    }

    fn try_split(input: &'a [u8]) -> Option<(&'a [u8], Self)> {
        let (rest, [come, at, go]) = input.strip_suffix(CHANGE)?.split_last_chunk()?;
        let (file, come) = rest.split_at_checked(rest.len().checked_sub(usize::from(*come))?)?;
        Some((file, Self { come, at: *at, go: *go }))
    }

    /// The index of `file` with the change. Without one there is a check to change and nothing else.
    fn apply(&self, file: &[u8]) -> Vec<u8> {
        let mut index = Vec::new();
        if !RowIndexer::default().append(file, &mut index) {
            index.resize(4, 0);
        }
        let at = usize::from(self.at) % (index.len() + 1);
        let end = index.len().min(at + usize::from(self.go));
        index.splice(at..end, self.come.iter().copied());
        index
    }

    /// Decodes by the changed index as it is, which is damaged; with its check mended, which makes it a forgery; and with one bit
    /// of that check wrong. A forgery brings some pixels, and what the check refuses is decoded as without an index.
    pub(crate) fn decode(&self, file: &[u8], size: Size, own: &mut Decoder) -> RowIndexCounts {
        let mut all = own.take_row_index_counts();
        let damaged = self.apply(file);
        let mut forged = damaged.clone();
        forged.resize(forged.len().max(4), 0);
        let right = check(file, &forged[4..]);
        forged[..4].copy_from_slice(&right);
        let mut nearly = forged.clone();
        nearly[usize::from(self.at) / 8 % 4] ^= 1 << (self.at % 8);
        let smaller = [Scale::Half, Scale::Quarter, Scale::Eighth][self.come.len() % 3];
        let (mut plain, mut indexed) = (Pixels::new(), Pixels::new());
        for (scale, wanted) in [
            (Scale::Full, part(file, size)),
            (Scale::Full, Region::all(size)),
            (smaller, part(file, smaller.size(size))),
        ] {
            let expected = own.decode_scaled(file, &[], scale, wanted, &mut plain);
            for index in [&damaged, &forged, &nearly] {
                let is_right = index.split_first_chunk().is_some_and(|(stored, rows)| *stored == check(file, rows));
                let outcome = own.decode_scaled(file, index, scale, wanted, &mut indexed);
                let counts = own.take_row_index_counts();
                assert!(is_right || counts.used == 0, "a row index with another check was used");
                // The file may be damaged where an index leads around it, but an index makes nothing undecodable.
                assert!(outcome.is_ok() || expected.is_err(), "{outcome:?} for the row index {index:?}");
                let found = outcome.is_ok().then(|| cut(&indexed, wanted));
                if counts.used == 0 {
                    assert_eq!(outcome.is_ok(), expected.is_ok(), "{outcome:?} and {expected:?}");
                    assert!(found.is_none_or(|found| found == cut(&plain, wanted)), "other pixels in {wanted:?}");
                }
                all.used += counts.used;
                all.refused += counts.refused;
            }
        }
        all
    }
}

/// The check of `rows` for a row index of `file`, written a second time.
fn check(file: &[u8], rows: &[u8]) -> [u8; 4] {
    let seed = (file.len() as u64) << 32 | u64::from(crc32fast::hash(file));
    (xxh3_64_with_seed(rows, seed) as u32).to_le_bytes()
}

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

/// Says whether the input is a picture.
pub(crate) fn agree(input: &[u8]) -> bool {
    let (bytes, change) = Change::split(input);
    let (mut own, mut turbo) = (Decoder::new(), Turbo::new().expect("memory for an instance"));
    let (found, same) = (turbo.size(bytes), own.size(bytes));
    assert_eq!(found.as_ref().ok(), same.as_ref().ok(), "{found:?} and {same:?}");
    let Ok(size) = found else { return false };
    if u64::from(size.w) * u64::from(size.h) > PIXELS_MAX {
        return false;
    }
    if let Some(change) = change {
        // First, so that what it leaves in the decoder meets all that follows.
        change.decode(bytes, size, &mut own);
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
