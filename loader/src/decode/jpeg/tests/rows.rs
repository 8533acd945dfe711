//! Row indexes: the same pixels as without one, whatever the index says.

use super::super::kernel::Kernels;
use super::equal::assert_equal_from;
use super::writer::Picture;
use super::*;

fn index(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![7];
    assert!(RowIndexer::default().append(bytes, &mut out), "no index");
    assert_eq!(out.remove(0), 7, "something was overwritten");
    out
}

/// As the function of `equal`, with the picture's row index.
fn assert_equal(bytes: &[u8], count: u32, random: &mut Lcg, what: &str) {
    assert_equal_from(bytes, Some(&index(bytes)), count, random, what);
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
            // Within a row, exactly a row of some of these pictures, several rows.
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

fn blocks(random: &mut Lcg) -> impl FnMut(usize) -> [i16; entropy::BLOCK] + '_ {
    |_| {
        let mut block = [0; entropy::BLOCK];
        block[0] = random.below(2047) as i16 - 1023;
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
fn an_index_is_what_its_format_says() {
    // Two rows of one block: DC 5, then DC -3. Code of the DC symbol, value, end of block: the writer's codes are those
    // of its table, so places are compared with the file's.
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
        let mut block = [0; entropy::BLOCK];
        block[0] = dc.next().unwrap();
        block
    });
    let data = bytes.len() - 2 - bytes.iter().rev().skip(2).position(|b| *b == 0x3f).unwrap() + 1;
    let index = index(&bytes);
    assert_eq!(index[..4], check(&bytes, data, &index[4..]));
    // 8 bits of code and 3 of value, 8 of the end of block; then 8, 4 (a difference of -8), 8.
    assert_eq!(index[4..], [19, 10, 20, 15]);
}

#[test]
fn pictures_that_cannot_be_started_anywhere_get_no_index() {
    let size = Size { w: 40, h: 60 };
    let plain = encode(&picture(size, &mut Lcg(23)), size, 80, Subsampling::S420, false).unwrap();
    let progressive = encode(&picture(size, &mut Lcg(23)), size, 80, Subsampling::S420, true).unwrap();
    let components = [(1, 0x11), (2, 0x11), (3, 0x11)];
    let scans: &[&[usize]] = &[&[0], &[1, 2]];
    let several =
        Picture { w: 20, h: 20, components: &components, scans, restart_interval: 0, extra: &[], quantisation: 2 };
    let several = several.write(&mut |_| [1; entropy::BLOCK]);
    let mut indexer = RowIndexer::default();
    for bytes in [&plain[..plain.len() - 20], &progressive, &several, b"", b"no picture"] {
        let mut out = vec![1, 2];
        assert!(!indexer.append(bytes, &mut out));
        assert_eq!(out, [1, 2]);
    }
    assert!(indexer.append(&plain, &mut Vec::new()));
}

#[test]
fn an_index_of_another_picture_is_refused() {
    let size = Size { w: 60, h: 90 };
    let [one, other] =
        [24, 25].map(|seed| encode(&picture(size, &mut Lcg(seed)), size, 80, Subsampling::S420, false).unwrap());
    let mut decoder = Decoder::new();
    let (mut want, mut got) = (Pixels::new(), Pixels::new());
    let wanted = Region { x: 3, y: 50, w: 20, h: 20 };
    decoder.decode(&one, wanted, &mut want).unwrap();
    assert_eq!(decoder.take_row_index_counts(), RowIndexCounts::default());
    decoder.decode_indexed(&one, &index(&other), wanted, &mut got).unwrap();
    assert_part_of(&want, &got, wanted, "with another's index");
    let is_own = Kernels::new().use_vectors();
    assert_eq!(decoder.take_row_index_counts(), RowIndexCounts { used: 0, refused: u64::from(is_own) });
    decoder.decode_indexed(&one, &index(&one), wanted, &mut got).unwrap();
    assert_part_of(&want, &got, wanted, "with its own index");
    assert_eq!(decoder.take_row_index_counts(), RowIndexCounts { used: u64::from(is_own), refused: 0 });
    // None at all is not a refusal.
    decoder.decode_indexed(&one, &[], wanted, &mut got).unwrap();
    assert_eq!(decoder.take_row_index_counts(), RowIndexCounts::default());
}

/// The check of `rows` of the picture `bytes`, whose entropy-coded data starts at `data`.
fn check(bytes: &[u8], data: usize, rows: &[u8]) -> [u8; 4] {
    let file = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[..data], bytes.len() as u64);
    (xxhash_rust::xxh3::xxh3_64_with_seed(rows, file) as u32).to_le_bytes()
}

#[test]
fn a_damaged_index_is_refused() {
    let size = Size { w: 70, h: 130 };
    let mut random = Lcg(26);
    let mut decoder = Decoder::new();
    let (mut want, mut got) = (Pixels::new(), Pixels::new());
    for round in 0..1000 {
        let bytes = encode(&picture(size, &mut random), size, 75, KINDS[round % KINDS.len()], false).unwrap();
        let mut index = index(&bytes);
        if round % 2 == 0 {
            index.truncate(random.below(index.len() as u32) as usize);
        } else {
            let at = random.below(index.len() as u32) as usize;
            index[at] ^= 1 + random.below(255) as u8;
        }
        let wanted = random.region(size);
        decoder.decode(&bytes, wanted, &mut want).unwrap();
        decoder.decode_indexed(&bytes, &index, wanted, &mut got).unwrap();
        assert_part_of(&want, &got, wanted, &format!("round {round} {wanted:?}"));
        assert_eq!(decoder.take_row_index_counts().used, 0, "round {round}");
    }
}

#[test]
fn an_index_that_lies_is_noticed_where_its_rows_lead_elsewhere() {
    let size = Size { w: 70, h: 130 };
    let mut random = Lcg(27);
    let mut decoder = Decoder::new();
    let (mut want, mut got) = (Pixels::new(), Pixels::new());
    let (mut right, mut refused) = (0, 0);
    for round in 0..3000 {
        let bytes = encode(&picture(size, &mut random), size, 75, KINDS[round % KINDS.len()], false).unwrap();
        let scan = bytes.windows(2).position(|w| w == [0xff, 0xda]).unwrap();
        let data = scan + 2 + usize::from(bytes[scan + 3]);
        let mut lie = index(&bytes);
        match round % 3 {
            0 => lie[4..].iter_mut().for_each(|byte| *byte = random.below(256) as u8),
            1 => lie[4..].iter_mut().for_each(|byte| *byte = if random.below(8) == 0 { 0xff } else { 0 }),
            _ => {
                let at = 4 + random.below(lie.len() as u32 - 4) as usize;
                lie[at] = random.below(256) as u8;
            }
        }
        let honest = check(&bytes, data, &lie[4..]);
        lie[..4].copy_from_slice(&honest);
        let wanted = random.region(size);
        decoder.decode(&bytes, wanted, &mut want).unwrap();
        decoder.decode_indexed(&bytes, &lie, wanted, &mut got).unwrap();
        assert_eq!(got.region().size(), wanted.size(), "round {round}");
        right += u32::from(want.rgb() == got.rgb());
        refused += decoder.take_row_index_counts().refused;
    }
    // Predictors that are wrong in all rows by the same lead nowhere else: only the check tells those.
    assert!(right > 2500, "{right} right, {refused} refused");
    assert!(!Kernels::new().use_vectors() || refused > 1500, "{right} right, {refused} refused");
}
