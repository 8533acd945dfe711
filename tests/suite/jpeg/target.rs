//! Properties that must hold for any bytes: the decoder and libjpeg-turbo give the same pixels, or both reject the
//! file; and a row index of any bytes is handled. Every run checks damaged seeds; the fuzzer uses the same check.
//!
//! An input is a file, followed by an optional [`Change`] to its row index.
//!
//! Fuzzed so far, with coverage: some 4 million inputs on earlier forms of the decoder and of this check and 1.7
//! million with smaller pictures in it, without sanitizers; then, with AddressSanitizer in all Rust code, 7.9 million
//! in 1.5 hours of one core; with changes to row indexes, and seeds of every kind of file, 1.1 million in 18 minutes.
//! All faults found are fixed. Errors that both decoders share, such as damage that both take for harmless, show only
//! if libjpeg warns of nothing.

use forebay_loader::decode::geometry::{Region, Scale, Size};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder, RowIndexCounts, RowIndexer, Turbo};
use forebay_loader::decode::pixels::Pixels;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Largest picture. Larger ones are slow and find nothing that smaller ones do not.
const PIXELS_MAX: u64 = 1 << 18;

/// Last bytes of an input with a change.
const CHANGE: &[u8] = b"rows";

/// Change to a row index before it is used: bytes at one offset are replaced. Its form in an input is
///
/// ```text
/// new bytes, as many as the next byte
/// u8    number of new bytes
/// u8    offset, modulo one more than the bytes of the index
/// u8    number of bytes to remove, at most all from there on
/// rows
/// ```
pub(crate) struct Change<'a> {
    added: &'a [u8],
    at: u8,
    removed: u8,
}

impl<'a> Change<'a> {
    /// Splits an input into the file, and the change if there is one.
    pub(crate) fn split(input: &'a [u8]) -> (&'a [u8], Option<Self>) {
        Self::try_split(input).map_or((input, None), |(file, change)| (file, Some(change)))
    }

    fn try_split(input: &'a [u8]) -> Option<(&'a [u8], Self)> {
        let (rest, [added, at, removed]) = input.strip_suffix(CHANGE)?.split_last_chunk()?;
        let (file, added) = rest.split_at_checked(rest.len().checked_sub(usize::from(*added))?)?;
        Some((file, Self { added, at: *at, removed: *removed }))
    }

    /// Returns the index of `file` with the change. For a file without an index, only a check is changed.
    fn apply(&self, file: &[u8]) -> Vec<u8> {
        let mut index = Vec::new();
        if !RowIndexer::default().append(file, &mut index) {
            index.resize(4, 0);
        }
        let at = usize::from(self.at) % (index.len() + 1);
        let end = index.len().min(at + usize::from(self.removed));
        index.splice(at..end, self.added.iter().copied());
        index
    }

    /// Decodes with the changed index as it is, which is damaged; with its check recomputed, which is a forgery; and
    /// with one bit of that check wrong. A forgery yields some pixels; with an index that the check rejects, the file
    /// is decoded as without an index.
    pub(crate) fn decode(&self, file: &[u8], size: Size, decoder: &mut Decoder) -> RowIndexCounts {
        let mut all = decoder.take_row_index_counts();
        let damaged = self.apply(file);
        let mut forged = damaged.clone();
        forged.resize(forged.len().max(4), 0);
        let right = check(file, &forged[4..]);
        forged[..4].copy_from_slice(&right);
        let mut nearly = forged.clone();
        nearly[usize::from(self.at) / 8 % 4] ^= 1 << (self.at % 8);
        let smaller = [Scale::Half, Scale::Quarter, Scale::Eighth][self.added.len() % 3];
        let (mut plain, mut indexed) = (Pixels::default(), Pixels::default());
        for (scale, region) in [
            (Scale::Full, part(file, size)),
            (Scale::Full, Region::all(size)),
            (smaller, part(file, smaller.size(size))),
        ] {
            let expected = decoder.decode_scaled(file, &[], scale, region, &mut plain);
            for index in [&damaged, &forged, &nearly] {
                let is_right = index.split_first_chunk().is_some_and(|(stored, rows)| *stored == check(file, rows));
                let outcome = decoder.decode_scaled(file, index, scale, region, &mut indexed);
                let counts = decoder.take_row_index_counts();
                assert!(is_right || counts.used == 0, "a row index with a different check was used");
                // An index may lead around damage in the file, but must make nothing undecodable.
                assert!(outcome.is_ok() || expected.is_err(), "{outcome:?} for the row index {index:?}");
                let found = outcome.is_ok().then(|| cut(&indexed, region));
                if counts.used == 0 {
                    assert_eq!(outcome.is_ok(), expected.is_ok(), "{outcome:?} and {expected:?}");
                    assert!(found.is_none_or(|found| found == cut(&plain, region)), "different pixels in {region:?}");
                }
                all.used += counts.used;
                all.rejected += counts.rejected;
            }
        }
        all
    }
}

/// Returns the check of `rows` for a row index of `file`, implemented a second time.
fn check(file: &[u8], rows: &[u8]) -> [u8; 4] {
    let seed = (file.len() as u64) << 32 | u64::from(crc32fast::hash(file));
    (xxh3_64_with_seed(rows, seed) as u32).to_le_bytes()
}

/// Returns the pixels of `region`, which `pixels` contains.
fn cut(pixels: &Pixels, region: Region) -> Vec<u8> {
    let have = pixels.region();
    let row = |y: u32| {
        let start = ((y - have.y) * have.w + region.x - have.x) as usize * 3;
        &pixels.rgb()[start..start + region.w as usize * 3]
    };
    (region.y..region.y + region.h).flat_map(row).copied().collect()
}

/// Returns a region that depends only on the bytes.
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

/// Checks an input. Returns true if it is a picture.
pub(crate) fn agree(input: &[u8]) -> bool {
    let (bytes, change) = Change::split(input);
    let (mut decoder, mut turbo) = (Decoder::default(), Turbo::new().expect("memory for an instance"));
    let (found, same) = (turbo.size(bytes), decoder.size(bytes));
    assert_eq!(found.as_ref().ok(), same.as_ref().ok(), "{found:?} and {same:?}");
    let Ok(size) = found else { return false };
    if u64::from(size.w) * u64::from(size.h) > PIXELS_MAX {
        return false;
    }
    if let Some(change) = change {
        // Done first, so that all later decoding follows it.
        change.decode(bytes, size, &mut decoder);
    }
    let (mut whole, mut pixels) = (Pixels::default(), Pixels::default());
    let all = Region::all(size);
    let (expected, outcome) = (turbo.decode(bytes, all, &mut whole), decoder.decode(bytes, all, &mut pixels));
    assert_eq!(expected.is_ok(), outcome.is_ok(), "{expected:?} and {outcome:?}");
    let region = part(bytes, size);
    if expected.is_err() {
        // Damage after the region may not be noticed; any earlier damage must be. This must return in both cases.
        let _ = decoder.decode(bytes, region, &mut pixels);
        return false;
    }
    assert!(whole.rgb() == cut(&pixels, all), "different pixels");
    for scale in [Scale::Half, Scale::Quarter, Scale::Eighth] {
        let all = Region::all(scale.size(size));
        let (mut expected, mut found) = (Pixels::default(), Pixels::default());
        let outcomes = (
            turbo.decode_scaled(bytes, scale, all, &mut expected),
            decoder.decode_scaled(bytes, &[], scale, all, &mut found),
        );
        assert_eq!(outcomes.0.is_ok(), outcomes.1.is_ok(), "{outcomes:?} at {scale:?}");
        assert!(outcomes.0.is_err() || expected.rgb() == found.rgb(), "different pixels at {scale:?}");
    }
    let mut row_index = Vec::new();
    if RowIndexer::default().append(bytes, &mut row_index) {
        decoder.decode_scaled(bytes, &row_index, Scale::Full, region, &mut pixels).expect("an indexed file decodes");
        assert!(cut(&whole, region) == cut(&pixels, region), "different pixels with a row index in {region:?}");
        assert_eq!(decoder.take_row_index_counts().rejected, 0);
    }
    let outcome = decoder.decode(bytes, region, &mut pixels);
    if let Ok(None) = turbo.decode_damaged(bytes, Scale::Full, &mut Pixels::default()) {
        // If libjpeg does not warn, every region must be decoded, whatever the decoder assumes to be harmless.
        assert!(outcome.is_ok(), "{outcome:?} in {region:?}");
    }
    if outcome.is_err() || cut(&whole, region) != cut(&pixels, region) {
        // If libjpeg-turbo overlooks damage, its regions may differ from its whole picture. This decoder then falls
        // back to it.
        let expected = turbo.decode(bytes, region, &mut whole);
        assert_eq!(expected.is_ok(), outcome.is_ok(), "{expected:?} and {outcome:?} in {region:?}");
        assert!(outcome.is_err() || cut(&whole, region) == cut(&pixels, region), "different pixels in {region:?}");
    }
    true
}
