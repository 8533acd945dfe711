//! Row indexes: the same pixels as without one, for any index.

use std::ops::Range;

use super::super::fallback::Fallback;
use super::super::markers::Headers;
use super::super::native::NativeDecoder;
use super::super::row_index::{RowIndexReader, RowIndexWriter, RowStart};
use super::super::unstuff::BitPosition;
use super::equal::assert_equal_from;
use super::writer::Picture;
use super::*;

fn index(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![7];
    assert!(RowIndexer::default().append(bytes, &mut out), "no index");
    assert_eq!(out.remove(0), 7, "something was overwritten");
    out
}

/// Compares as `equal::assert_equal` does, with the picture's row index.
fn assert_equal(bytes: &[u8], count: u32, random: &mut Lcg, about: &str) {
    assert_equal_from(bytes, Some(&index(bytes)), count, random, about);
}

#[test]
fn every_subsampling_has_the_same_pixels_with_an_index() {
    let mut random = Lcg(21);
    for kind in KINDS {
        for (w, h) in [(1, 1), (5, 4), (16, 16), (17, 33), (31, 64), (33, 15), (97, 75), (150, 231)] {
            for quality in [3, 50, 90, 100] {
                let size = Size { w, h };
                let bytes = encode(&picture(size, &mut random), size, quality, kind, false).unwrap();
                assert_equal(&bytes, 20, &mut random, &format!("{kind:?} {w}x{h} quality {quality}"));
            }
        }
    }
}

#[test]
fn every_restart_interval_has_the_same_pixels_with_an_index() {
    let mut random = Lcg(22);
    for factors in [[0x11, 0x11, 0x11], [0x22, 0x11, 0x11], [0x12, 0x11, 0x11], [0x41, 0x11, 0x11]] {
        for components in [1, 3] {
            for restart_interval in [0, 1, 2, 3, 5, 7, 10, 23] {
                let (w, h) = (1 + random.below(90) as u16, 20 + random.below(90) as u16);
                let all = [(1, factors[0]), (2, factors[1]), (3, factors[2])];
                let scans: &[&[usize]] = if components == 1 { &[&[0]] } else { &[&[0, 1, 2]] };
                let components = &all[..components];
                let picture = Picture { w, h, components, scans, restart_interval, extra: &[], quantisation: 2 };
                let bytes = picture.write(&mut blocks(&mut random));
                assert_equal(&bytes, 20, &mut random, &format!("{factors:x?} {restart_interval} {w}x{h}"));
            }
        }
    }
}

/// Pictures of 5 x 6 MCUs with intervals that divide a row, are one, span several, and start within rows.
#[test]
fn every_part_of_a_row_is_found_wherever_restart_intervals_start() {
    let mut random = Lcg(28);
    for restart_interval in [1, 2, 3, 4, 5, 6, 7, 9, 10, 15, 16, 29, 30] {
        let components = [(1, 0x21), (2, 0x11), (3, 0x11)];
        let picture = Picture {
            w: 75,
            h: 47,
            components: &components,
            scans: &[&[0, 1, 2]],
            restart_interval,
            extra: &[],
            quantisation: 2,
        };
        let bytes = picture.write(&mut blocks(&mut random));
        let index = index(&bytes);
        let (mut whole, mut part) = (Pixels::default(), Pixels::default());
        Turbo::new().unwrap().decode(&bytes, Region::all(Size { w: 75, h: 47 }), &mut whole).unwrap();
        for kernels in all_kernels() {
            let mut native = NativeDecoder::new(kernels);
            for (y, h) in [(0, 1), (0, 47), (7, 2), (16, 8), (24, 23), (46, 1)] {
                for (x, w) in [(0, 1), (0, 75), (15, 2), (16, 16), (33, 30), (64, 11), (74, 1)] {
                    let region = Region { x, y, w, h };
                    let about = format!("{restart_interval} {kernels:?} {region:?}");
                    native
                        .decode_scaled(&bytes, Some(&index), Scale::Full, region, &mut part)
                        .unwrap_or_else(|e| panic!("{about}: {e}"));
                    assert_part_of(&whole, &part, region, &about);
                }
            }
        }
    }
}

fn blocks(random: &mut Lcg) -> impl FnMut(usize) -> [i16; order::BLOCK] + '_ {
    |_| {
        let mut block = [0; order::BLOCK];
        block[0] = random.below(1023) as i16 - 511;
        let dense = 1 + random.below(64);
        for value in &mut block[1..] {
            if random.below(64) < dense {
                *value = random.below(64) as i16 - 32;
            }
        }
        block
    }
}

#[test]
fn an_index_has_the_documented_format() {
    // Two rows of one block: DC 5, then DC -3. Code of the DC symbol, value, end of block: the writer's codes are from
    // its table, so positions are compared with the file's.
    let components = [(1, 0x11)];
    let picture = Picture {
        w: 8,
        h: 24,
        components: &components,
        scans: &[&[0]],
        restart_interval: 0,
        extra: &[],
        quantisation: 1,
    };
    let mut dc = [5, -3, 200].into_iter();
    let bytes = picture.write(&mut |_| {
        let mut block = [0; order::BLOCK];
        block[0] = dc.next().unwrap();
        block
    });
    let index = index(&bytes);
    assert_eq!(index[..4], check(&bytes, &index[4..]));
    // 8 bits of code and 3 of value, 8 of the end of block; then 8, 4 (a difference of -8), 8.
    assert_eq!(index[4..], [19, 10, 20, 15]);
}

#[test]
fn pictures_that_cannot_be_decoded_from_any_row_get_no_index() {
    let size = Size { w: 40, h: 60 };
    let plain = encode(&picture(size, &mut Lcg(23)), size, 80, Subsampling::S420, false).unwrap();
    let progressive = encode(&picture(size, &mut Lcg(23)), size, 80, Subsampling::S420, true).unwrap();
    let components = [(1, 0x11), (2, 0x11), (3, 0x11)];
    let scans: &[&[usize]] = &[&[0], &[1, 2]];
    let several =
        Picture { w: 20, h: 20, components: &components, scans, restart_interval: 0, extra: &[], quantisation: 2 };
    let several = several.write(&mut |_| [1; order::BLOCK]);
    let mut indexer = RowIndexer::default();
    for bytes in [&plain[..plain.len() - 20], &progressive, &several, b"", b"no picture"] {
        let mut out = vec![1, 2];
        assert!(!indexer.append(bytes, &mut out));
        assert_eq!(out, [1, 2]);
    }
    assert!(indexer.append(&plain, &mut Vec::new()));
}

#[test]
fn an_index_of_a_different_picture_is_rejected() {
    let size = Size { w: 60, h: 90 };
    let [one, other] =
        [24, 25].map(|seed| encode(&picture(size, &mut Lcg(seed)), size, 80, Subsampling::S420, false).unwrap());
    let mut decoder = Decoder::default();
    let (mut want, mut got) = (Pixels::default(), Pixels::default());
    let region = Region { x: 3, y: 50, w: 20, h: 20 };
    decoder.decode(&one, region, &mut want).unwrap();
    assert_eq!(decoder.take_row_index_counts(), RowIndexCounts::default());
    decoder.decode_scaled(&one, &index(&other), Scale::Full, region, &mut got).unwrap();
    assert_part_of(&want, &got, region, "with a wrong index");
    let is_own = Kernels::default().use_vectors();
    assert_eq!(decoder.take_row_index_counts(), RowIndexCounts { used: 0, rejected: u64::from(is_own) });
    decoder.decode_scaled(&one, &index(&one), Scale::Full, region, &mut got).unwrap();
    assert_part_of(&want, &got, region, "with its own index");
    assert_eq!(decoder.take_row_index_counts(), RowIndexCounts { used: u64::from(is_own), rejected: 0 });
    // A missing index is not counted as rejected.
    decoder.decode_scaled(&one, &[], Scale::Full, region, &mut got).unwrap();
    assert_eq!(decoder.take_row_index_counts(), RowIndexCounts::default());
}

/// Returns the check of `rows` of the picture `bytes`.
fn check(bytes: &[u8], rows: &[u8]) -> [u8; 4] {
    let seed = u64::from(crc32fast::hash(bytes)) + ((bytes.len() as u64) << 32);
    (xxhash_rust::xxh3::xxh3_64_with_seed(rows, seed) as u32).to_le_bytes()
}

/// Returns a picture of 8 x 32 pixels with AC coefficients that are `sign` or 0.
fn signed(sign: i16) -> Vec<u8> {
    let components = [(1, 0x11)];
    let scans: &[&[usize]] = &[&[0]];
    let picture =
        Picture { w: 8, h: 32, components: &components, scans, restart_interval: 0, extra: &[], quantisation: 9 };
    picture.write(&mut |_| std::array::from_fn(|i| if i % 5 == 1 { sign } else { 0 }))
}

#[test]
fn an_index_of_a_picture_that_differs_only_in_coded_data_is_rejected() {
    let [one, other] = [signed(1), signed(-1)];
    let rows = index(&one);
    // Length, header and all values of the index are the same.
    assert_eq!((one.len(), &rows[4..]), (other.len(), &index(&other)[4..]));
    let data = data(&one);
    assert!(one[..data] == other[..data] && one != other);
    let region = Region { x: 2, y: 10, w: 3, h: 9 };
    for kernels in all_kernels() {
        let mut native = NativeDecoder::new(kernels);
        assert_eq!(native.decode_scaled(&one, Some(&rows), Scale::Full, region, &mut Pixels::default()), Ok(()));
        let rejected = native.decode_scaled(&other, Some(&rows), Scale::Full, region, &mut Pixels::default());
        assert_eq!(rejected, Err(Fallback("a row index that is damaged or of a different picture")));
    }
}

#[test]
fn damage_after_indexing_has_the_same_effect_as_without_an_index() {
    let size = Size { w: 70, h: 130 };
    let mut random = Lcg(29);
    let [mut plain, mut indexed] = [Decoder::default(), Decoder::default()];
    let (mut want, mut got) = (Pixels::default(), Pixels::default());
    let (mut decoded, mut failed) = (0, 0);
    for round in 0..400 {
        let mut bytes = encode(&picture(size, &mut random), size, 75, KINDS[round % KINDS.len()], false).unwrap();
        let index = index(&bytes);
        let data = data(&bytes);
        let at = data + random.below((bytes.len() - data) as u32) as usize;
        if round % 2 == 0 {
            bytes[at] ^= 1 + random.below(255) as u8;
        } else {
            bytes.truncate(at);
        }
        let region = random.region(size);
        let expected = plain.decode(&bytes, region, &mut want);
        let outcome = indexed.decode_scaled(&bytes, &index, Scale::Full, region, &mut got);
        assert_eq!(expected.is_ok(), outcome.is_ok(), "round {round}: {expected:?} and {outcome:?}");
        if expected.is_ok() {
            assert_part_of(&want, &got, region, &format!("round {round}"));
            decoded += 1;
        } else {
            failed += 1;
        }
    }
    assert!(decoded > 50 && failed > 50, "{decoded} decoded, {failed} failed");
    assert_eq!(indexed.take_row_index_counts().used, 0);
}

/// Returns the start of the entropy-coded data of `bytes`.
fn data(bytes: &[u8]) -> usize {
    Headers::new(bytes).unwrap().next_scan().unwrap().unwrap().1.data
}

#[test]
fn a_damaged_index_is_rejected() {
    let size = Size { w: 70, h: 130 };
    let mut random = Lcg(26);
    let mut decoder = Decoder::default();
    let (mut want, mut got) = (Pixels::default(), Pixels::default());
    for round in 0..1000 {
        let bytes = encode(&picture(size, &mut random), size, 75, KINDS[round % KINDS.len()], false).unwrap();
        let mut index = index(&bytes);
        if round % 2 == 0 {
            index.truncate(random.below(index.len() as u32) as usize);
        } else {
            let at = random.below(index.len() as u32) as usize;
            index[at] ^= 1 + random.below(255) as u8;
        }
        let region = random.region(size);
        decoder.decode(&bytes, region, &mut want).unwrap();
        decoder.decode_scaled(&bytes, &index, Scale::Full, region, &mut got).unwrap();
        assert_part_of(&want, &got, region, &format!("round {round} {region:?}"));
        assert_eq!(decoder.take_row_index_counts().used, 0, "round {round}");
    }
}

#[test]
fn an_index_with_wrong_values_is_rejected_or_gives_wrong_pixels() {
    let size = Size { w: 70, h: 130 };
    let mut random = Lcg(27);
    let mut decoder = Decoder::default();
    let mut got = Pixels::default();
    let mut rejected = 0;
    for round in 0..3000 {
        let bytes = encode(&picture(size, &mut random), size, 75, KINDS[round % KINDS.len()], false).unwrap();
        let mut lie = index(&bytes);
        match round % 3 {
            0 => lie[4..].iter_mut().for_each(|byte| *byte = random.below(256) as u8),
            1 => lie[4..].iter_mut().for_each(|byte| *byte = if random.below(8) == 0 { 0xff } else { 0 }),
            _ => {
                let at = 4 + random.below(lie.len() as u32 - 4) as usize;
                lie[at] = random.below(256) as u8;
            }
        }
        let honest = check(&bytes, &lie[4..]);
        lie[..4].copy_from_slice(&honest);
        let region = random.region(size);
        decoder.decode_scaled(&bytes, &lie, Scale::Full, region, &mut got).unwrap();
        let have = got.region();
        assert!(have.x <= region.x && have.y <= region.y, "round {round}");
        assert!(have.x + have.w >= region.x + region.w && have.y + have.h >= region.y + region.h, "round {round}");
        rejected += decoder.take_row_index_counts().rejected;
    }
    assert!(!Kernels::default().use_vectors() || rejected > 1000, "{rejected} rejected");
}

/// Returns a picture of five rows of four MCUs, with restart markers, or without at an interval of 0.
fn five_rows(restart_interval: u16) -> Vec<u8> {
    let components = [(1, 0x11), (2, 0x11), (3, 0x11)];
    let scans: &[&[usize]] = &[&[0, 1, 2]];
    let picture =
        Picture { w: 32, h: 40, components: &components, scans, restart_interval, extra: &[], quantisation: 1 };
    // A value of 10 bits, all ones, ensures stuffing; no encoder writes two of them in a column.
    picture.write(&mut |_| std::array::from_fn(|i| if [20, 41].contains(&i) { 1023 } else { 3 }))
}

/// Returns the starts of the second row and the later ones, from the index of `bytes`.
fn starts(bytes: &[u8]) -> Vec<RowStart> {
    let index = index(bytes);
    let (_, scan) = Headers::new(bytes).unwrap().next_scan().unwrap().unwrap();
    let mut reader = RowIndexReader::new(&index, bytes, &scan).unwrap();
    std::iter::from_fn(|| reader.skip(1).ok()).collect()
}

/// Returns an index of `bytes` with these `starts`.
fn forged(bytes: &[u8], starts: &[RowStart]) -> Vec<u8> {
    let (_, scan) = Headers::new(bytes).unwrap().next_scan().unwrap().unwrap();
    let mut index = Vec::new();
    let mut writer = RowIndexWriter::new(bytes, &scan, &mut index);
    starts.iter().for_each(|start| writer.push(*start).unwrap());
    writer.finish();
    index
}

/// Decodes whole rows of MCUs with an index. The kernels of all levels return the same result.
fn outcome(bytes: &[u8], index: &[u8], rows: Range<u32>) -> std::result::Result<(), Fallback> {
    let region = Region { x: 0, y: rows.start * 8, w: 32, h: (rows.end - rows.start) * 8 };
    let outcomes = all_kernels().into_iter().map(|kernels| {
        let mut pixels = Pixels::default();
        NativeDecoder::new(kernels).decode_scaled(bytes, Some(index), Scale::Full, region, &mut pixels)
    });
    let mut outcomes: Vec<_> = outcomes.collect();
    outcomes.dedup();
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    outcomes[0]
}

#[test]
fn a_forged_index_is_rejected_with_the_reason() {
    const SPLIT: &str = "a row that starts within two bytes that belong together, or beyond the file";
    const ABSENT: &str = "a part of a scan that is not there";
    const ENDLESS: &str = "a scan without an end";
    const SHORT: &str = "entropy-coded data that ends too early";
    const RESTART: &str = "a restart marker out of order";
    let bytes = five_rows(3);
    let honest = starts(&bytes);
    assert_eq!(honest.len(), 4);
    assert_eq!(outcome(&bytes, &forged(&bytes, &honest), 0..5), Ok(()));
    let data = data(&bytes);
    let at = |byte| BitPosition { byte, bit: 0 };
    let find =
        |from: usize, pair: [u8; 2]| from + bytes[from..].windows(2).position(|two| two == pair).expect("a pair");
    // Row 1 starts within the second restart interval, with the marker D0.
    let (second, third) = (honest[0].position.byte, honest[1].position.byte);
    let marker = find(data, [0xff, 0xd0]);
    let (stuffing, stuffing_in_row_1) = (find(data, [0xff, 0]), find(second, [0xff, 0]));
    assert!(stuffing < marker && marker < second && stuffing_in_row_1 < third);
    // The forgery, the row with the forged start, its position, the rows to decode, and the expected error.
    type Forgery<'a> = (&'a str, usize, BitPosition, Range<u32>, &'a str);
    let forgeries: [Forgery<'_>; 12] = [
        ("beyond the file", 4, at(bytes.len() + 1), 4..5, SPLIT),
        ("beyond the file, as the end", 4, at(bytes.len() + 1), 3..4, ABSENT),
        ("far beyond it", 4, at(usize::MAX >> 4), 3..5, ABSENT),
        ("at the file's end", 4, at(bytes.len()), 4..5, SHORT),
        ("at its end, as the end", 4, BitPosition { byte: bytes.len(), bit: 3 }, 3..4, ENDLESS),
        ("within stuffing", 1, at(stuffing + 1), 1..2, SPLIT),
        ("within stuffing, as the end", 1, at(stuffing + 1), 0..1, ENDLESS),
        ("within stuffing of the next row", 1, at(stuffing_in_row_1 + 1), 1..2, SPLIT),
        ("within a marker", 1, at(marker + 1), 1..2, SPLIT),
        ("within a marker, as the end", 1, at(marker + 1), 0..1, ENDLESS),
        ("before a marker that was counted", 1, at(marker), 1..2, RESTART),
        ("at the row before", 1, at(data), 0..1, SHORT),
    ];
    for (about, row, position, rows, reason) in forgeries {
        let mut starts = honest.clone();
        starts[row - 1].position = position;
        // The later ones stay in order.
        for later in &mut starts[row..] {
            if (later.position.byte, later.position.bit) < (position.byte, position.bit) {
                later.position = position;
            }
        }
        assert_eq!(outcome(&bytes, &forged(&bytes, &starts), rows), Err(Fallback(reason)), "{about}");
    }
}

#[test]
fn no_row_is_decoded_beyond_the_start_of_the_next() {
    let bytes = five_rows(3);
    let honest = starts(&bytes);
    for row in 1..=honest.len() {
        // The next row's start is a bit, and a byte, too early.
        let BitPosition { byte, bit } = honest[row - 1].position;
        let bits = byte * 8 + bit as usize;
        for less in [1, 8] {
            let mut starts = honest.clone();
            starts[row - 1].position = BitPosition { byte: (bits - less) / 8, bit: ((bits - less) % 8) as u32 };
            let rows = row as u32 - 1..row as u32;
            let rejected = outcome(&bytes, &forged(&bytes, &starts), rows);
            assert!(rejected.is_err(), "row {row}, {less} bits less");
        }
    }
}

#[test]
fn positions_and_predictors_of_any_size_are_handled() {
    let mut random = Lcg(30);
    let bytes = five_rows(3);
    let size = Size { w: 32, h: 40 };
    let (mut taken, mut rejected) = (0, 0);
    for round in 0..4000 {
        let mut starts = starts(&bytes);
        let is_near = round % 2 == 0;
        for start in &mut starts {
            if random.below(2) == 0 {
                let (byte, bit) = (random.below(bytes.len() as u32 + 9) as usize, random.below(8));
                start.position =
                    BitPosition { byte: if is_near { start.position.byte } else { byte.max(data(&bytes)) }, bit };
            }
            if random.below(2) == 0 {
                start.predictors = [(); 3].map(|()| [i16::MIN, -2048, 0, 2047, i16::MAX][random.below(5) as usize]);
            }
        }
        starts.sort_by_key(|start| (start.position.byte, start.position.bit));
        let index = forged(&bytes, &starts);
        let region = random.region(size);
        for kernels in all_kernels() {
            match NativeDecoder::new(kernels).decode_scaled(
                &bytes,
                Some(&index),
                Scale::Full,
                region,
                &mut Pixels::default(),
            ) {
                Ok(()) => taken += 1,
                Err(_) => rejected += 1,
            }
        }
    }
    assert!(taken > 1000 && rejected > 1000, "{taken} taken, {rejected} rejected");
    // Steps of any size.
    for step in [u64::MAX, u64::MAX / 2, 1 << 62] {
        let mut index = vec![0; 4];
        for _ in 0..4 {
            let mut rest = step;
            while rest >= 0x80 {
                index.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            index.push(rest as u8);
            index.extend([0; 3]);
        }
        let honest = check(&bytes, &index[4..]);
        index[..4].copy_from_slice(&honest);
        for rows in [0..1, 1..2, 2..3, 0..5, 4..5] {
            assert!(outcome(&bytes, &index, rows.clone()).is_err(), "{step} {rows:?}");
        }
    }
}

#[test]
fn columns_right_of_the_region_are_not_decoded() {
    let mut bytes = five_rows(0);
    let honest = starts(&bytes);
    let (left, mut want, mut got) = (Region { x: 0, y: 0, w: 8, h: 40 }, Pixels::default(), Pixels::default());
    Turbo::new().unwrap().decode(&bytes, left, &mut want).unwrap();
    // The last MCU of each row but the last is replaced by bits that are no code.
    for start in &honest {
        let end = start.position.byte;
        bytes[end - 8..end - 1].fill(0xfe);
    }
    for kernels in all_kernels() {
        let mut native = NativeDecoder::new(kernels);
        assert_eq!(
            native.decode_scaled(&bytes, None, Scale::Full, left, &mut got),
            Err(Fallback("bits that are no code"))
        );
        assert_eq!(native.decode_scaled(&bytes, Some(&forged(&bytes, &honest)), Scale::Full, left, &mut got), Ok(()));
        assert_part_of(&want, &got, left, "left of the damage");
    }
}
