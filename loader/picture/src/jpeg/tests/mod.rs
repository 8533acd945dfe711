use super::kernel::Kernels;
use super::*;
use crate::geometry::Scale;
use crate::vectors::Vectors;
use forebay_core::error::ErrorKind;

mod deep;
mod end;
mod equal;
mod kernels;
mod progressive;
mod progressive_writer;
mod row_index;
mod scaled;
mod stages;
mod writer;

struct Lcg(u64);

impl Lcg {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(n)) as u32
    }

    fn region(&mut self, size: Size) -> Region {
        let (x, y) = (self.below(size.w), self.below(size.h));
        Region { x, y, w: 1 + self.below(size.w - x), h: 1 + self.below(size.h - y) }
    }
}

/// Returns a picture with edges, ramps and noise, so that every kind of upsampling shows.
fn picture(size: Size, random: &mut Lcg) -> Vec<u8> {
    let mut rgb = Vec::new();
    for y in 0..size.h {
        for x in 0..size.w {
            let edge = if (x / 7 + y / 5) % 2 == 0 { 90 } else { 0 };
            rgb.extend([(x * 2 % 160 + edge) as u8, (y * 3 % 160 + edge) as u8, random.below(256) as u8]);
        }
    }
    rgb
}

/// Returns the kernels of all levels that this machine has, the best last.
fn all_kernels() -> Vec<Kernels> {
    Vectors::available().into_iter().map(Kernels::with_vectors).collect()
}

/// All decoders; they must meet the same requirements.
fn decoders() -> [Box<dyn JpegDecoder>; 2] {
    [Box::new(Turbo::new().unwrap()), Box::new(Decoder::default())]
}

const KINDS: [Subsampling; 7] = [
    Subsampling::S444,
    Subsampling::S422,
    Subsampling::S420,
    Subsampling::S440,
    Subsampling::S411,
    Subsampling::S441,
    Subsampling::Grey,
];

fn assert_part_of(whole: &Pixels, part: &Pixels, region: Region, about: &str) {
    let (all, have) = (whole.region(), part.region());
    for have in [all, have] {
        assert!(have.x <= region.x && have.x + have.w >= region.x + region.w, "{about}");
        assert!(have.y <= region.y && have.y + have.h >= region.y + region.h, "{about}");
    }
    for y in region.y..region.y + region.h {
        let row = |p: &Pixels, r: Region| {
            let start = ((y - r.y) * r.w + region.x - r.x) as usize * 3;
            p.rgb()[start..start + region.w as usize * 3].to_vec()
        };
        assert_eq!(row(whole, all), row(part, have), "{about} row {y}");
    }
}

#[test]
fn a_region_has_the_pixels_of_the_whole_picture() {
    let mut random = Lcg(1);
    let (mut turbo, mut decoders) = (Turbo::new().unwrap(), decoders());
    let (mut whole, mut part) = (Pixels::default(), Pixels::default());
    for kind in KINDS {
        for progressive in [false, true] {
            for (w, h) in [(1, 1), (9, 3), (16, 16), (17, 33), (31, 64), (97, 75), (150, 131)] {
                let size = Size { w, h };
                let bytes = encode(&picture(size, &mut random), size, 90, kind, progressive).unwrap();
                assert_eq!(turbo.size(&bytes).unwrap(), size);
                turbo.decode(&bytes, Region::all(size), &mut whole).unwrap();
                assert_eq!(whole.region(), Region::all(size));
                for _ in 0..40 {
                    let region = random.region(size);
                    for decoder in &mut decoders {
                        decoder.decode(&bytes, region, &mut part).unwrap();
                        assert_part_of(&whole, &part, region, &format!("{kind:?} {progressive} {w}x{h} {region:?}"));
                    }
                }
            }
        }
    }
}

#[test]
fn a_grey_picture_with_sampling_factors_decodes_like_one_without() {
    let size = Size { w: 75, h: 61 };
    let plain = encode(&picture(size, &mut Lcg(7)), size, 90, Subsampling::Grey, false).unwrap();
    let mut odd = plain.clone();
    let frame = odd.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    // The factors of a single component have no meaning, but many encoders write 2 x 2.
    assert_eq!(odd[frame + 11], 0x11);
    odd[frame + 11] = 0x22;
    let mut turbo = Turbo::new().unwrap();
    let (mut whole, mut part) = (Pixels::default(), Pixels::default());
    turbo.decode(&plain, Region::all(size), &mut whole).unwrap();
    for region in [Region::all(size), Region { x: 21, y: 13, w: 30, h: 29 }, Region { x: 60, y: 50, w: 15, h: 11 }] {
        for mut decoder in decoders() {
            decoder.decode(&odd, region, &mut part).unwrap();
            assert_part_of(&whole, &part, region, &format!("{region:?}"));
        }
    }
}

#[test]
fn most_of_a_large_picture_outside_a_region_is_not_decoded() {
    let size = Size { w: 320, h: 240 };
    let bytes = encode(&picture(size, &mut Lcg(2)), size, 90, Subsampling::S420, false).unwrap();
    let mut pixels = Pixels::default();
    Turbo::new().unwrap().decode(&bytes, Region { x: 100, y: 50, w: 30, h: 20 }, &mut pixels).unwrap();
    assert_eq!(pixels.region(), Region { x: 96, y: 50, w: 36, h: 20 });
}

#[test]
fn a_truncated_picture_is_an_error_if_pixels_of_the_region_are_missing() {
    let size = Size { w: 64, h: 64 };
    let mut pixels = Pixels::default();
    let whole = Region::all(size);
    for (mut decoder, progressive) in
        decoders().into_iter().zip([false, true]).chain(decoders().into_iter().zip([true, false]))
    {
        let bytes = encode(&picture(size, &mut Lcg(3)), size, 90, Subsampling::S420, progressive).unwrap();
        for cut in 0..bytes.len() - 8 {
            let outcome = decoder.decode(&bytes[..cut], whole, &mut pixels);
            assert!(outcome.is_err(), "{progressive} {cut} of {}", bytes.len());
        }
        decoder.decode(&bytes, whole, &mut pixels).unwrap();
    }
}

#[test]
fn a_tolerant_decode_of_a_truncated_picture_has_the_rows_before_its_end() {
    let size = Size { w: 64, h: 64 };
    let all = Region::all(size);
    let upper = Region { h: 16, ..all };
    let (mut whole, mut pixels, mut expected) = (Pixels::default(), Pixels::default(), Pixels::default());
    for progressive in [false, true] {
        let bytes = encode(&picture(size, &mut Lcg(3)), size, 90, Subsampling::S420, progressive).unwrap();
        let mut decoder = Decoder::default();
        assert!(!decoder.decode_tolerant(&bytes, &[], Scale::Full, all, &mut whole).unwrap());
        let cut = &bytes[..bytes.len() * 2 / 3];
        assert!(decoder.decode(cut, all, &mut pixels).is_err());
        assert!(decoder.decode_tolerant(cut, &[], Scale::Full, upper, &mut pixels).unwrap() || !progressive);
        assert!(decoder.decode_tolerant(cut, &[], Scale::Full, all, &mut pixels).unwrap());
        let damage = Turbo::new().unwrap().decode_damaged(cut, Scale::Full, &mut expected).unwrap();
        assert!(damage.is_some_and(|damage| damage.contains("end")));
        assert_eq!(pixels.rgb(), expected.rgb());
        if !progressive {
            assert_part_of(&whole, &pixels, upper, "the rows before the end are as in the whole picture");
            let below = pixels.rgb().chunks(3 * 64).next_back().unwrap();
            assert!(below.iter().all(|b| *b == below[0]), "the rest is grey: {below:?}");
        }
        // Without a header nothing can be decoded.
        assert!(decoder.decode_tolerant(&bytes[..100], &[], Scale::Full, all, &mut pixels).is_err());
    }
}

#[test]
fn the_decoder_and_libjpeg_turbo_agree_on_damaged_pictures() {
    let size = Size { w: 48, h: 40 };
    let mut random = Lcg(4);
    let [mut turbo, mut decoder] = decoders();
    let (mut want, mut got) = (Pixels::default(), Pixels::default());
    let (mut errors, mut pictures) = (0, 0);
    for round in 0..4000 {
        let kind = KINDS[round % KINDS.len()];
        let mut bytes = encode(&picture(size, &mut random), size, 80, kind, round % 3 == 0).unwrap();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u32) as usize;
            bytes[at] = random.below(256) as u8;
        }
        let found = turbo.size(&bytes);
        assert_eq!(found.as_ref().ok(), decoder.size(&bytes).as_ref().ok(), "round {round}");
        let Ok(found) = found else {
            errors += 1;
            continue;
        };
        if u64::from(found.w) * u64::from(found.h) > 1 << 20 {
            continue;
        }
        let region = if round % 2 == 0 { Region::all(found) } else { random.region(found) };
        let (expected, outcome) = (turbo.decode(&bytes, region, &mut want), decoder.decode(&bytes, region, &mut got));
        // For a region, libjpeg-turbo reads beyond its last block: to the end of a row, and to the row below.
        let reads_on = region != Region::all(found) && outcome.is_ok();
        assert!(expected.is_ok() == outcome.is_ok() || reads_on, "round {round}: {expected:?} and {outcome:?}");
        if expected.is_ok() {
            pictures += 1;
            assert_part_of(&want, &got, region, &format!("round {round}"));
        } else {
            errors += 1;
        }
    }
    assert!(errors > 500 && pictures > 1000, "{errors} rejected, {pictures} decoded");
    // Both decoders still work after these errors.
    let bytes = encode(&picture(size, &mut random), size, 80, Subsampling::S444, false).unwrap();
    turbo.decode(&bytes, Region::all(size), &mut want).unwrap();
    decoder.decode(&bytes, Region::all(size), &mut got).unwrap();
    assert_eq!(want.rgb(), got.rgb());
}

#[test]
fn unread_bytes_are_harmless_only_before_the_end() {
    let size = Size { w: 64, h: 48 };
    let (all, mut pixels) = (Region::all(size), Pixels::default());
    let comment = [0xff, 0xfe, 0, 4, 1, 2];
    for progressive in [false, true] {
        let plain = encode(&picture(size, &mut Lcg(8)), size, 85, Subsampling::S420, progressive).unwrap();
        let (data, end) = plain.split_at(plain.len() - 2);
        let with = |between: &[u8]| [data, between, end].concat();
        let junk = [0x5a; 40];
        for (bytes, is_taken) in [
            (with(&junk), true),
            (with(&comment), true),
            (with(&[&junk[..], &comment].concat()), false),
            (with(&[&comment[..], &comment].concat()), true),
        ] {
            for mut decoder in decoders() {
                assert_eq!(
                    decoder.decode(&bytes, all, &mut pixels).is_ok(),
                    is_taken,
                    "{progressive}, {} bytes",
                    bytes.len()
                );
            }
            let is_indexed = RowIndexer::default().append(&bytes, &mut Vec::new());
            assert_eq!(is_indexed, is_taken && !progressive, "{} bytes", bytes.len());
        }
    }
}

#[test]
fn an_odd_header_does_no_harm_and_hides_no_damage() {
    let size = Size { w: 64, h: 48 };
    let all = Region::all(size);
    let plain = encode(&picture(size, &mut Lcg(8)), size, 85, Subsampling::S420, false).unwrap();
    let at = |marker: [u8; 2]| plain.windows(2).position(|pair| pair == marker).unwrap();
    let mut other_revision = plain.clone();
    other_revision[at(*b"JF") + 5] = 2;
    let mut bytes_between = plain.clone();
    bytes_between.splice(at([0xff, 0xdb])..at([0xff, 0xdb]), [0, 0]);
    let mut part_of_progressive = plain.clone();
    part_of_progressive[at([0xff, 0xda]) + 11] = 5;
    for mut decoder in decoders() {
        let (mut want, mut got) = (Pixels::default(), Pixels::default());
        decoder.decode(&plain, all, &mut want).unwrap();
        for (about, odd) in [("JFIF 2", &other_revision), ("junk", &bytes_between), ("scan", &part_of_progressive)] {
            decoder.decode(odd, all, &mut got).unwrap_or_else(|e| panic!("{about}: {e}"));
            assert_eq!(want.rgb(), got.rgb(), "{about}");
            for cut in (odd.len() / 2..odd.len() - 8).step_by(7) {
                assert!(decoder.decode(&odd[..cut], all, &mut got).is_err(), "{about}, cut off at {cut}");
            }
        }
    }
    let mut decoder = Decoder::default();
    let mut pixels = Pixels::default();
    assert!(
        decoder.decode_tolerant(&other_revision[..plain.len() / 2], &[], Scale::Full, all, &mut pixels).unwrap(),
        "it counts"
    );
}

#[test]
fn regions_of_pictures_with_common_sampling_factors_are_decoded() {
    let (mut random, mut values) = (Lcg(9), Lcg(10));
    for factors in [[0x21; 3], [0x31; 3], [0x22, 0x21, 0x21]] {
        let components = [(1, factors[0]), (2, factors[1]), (3, factors[2])];
        let picture = writer::Picture {
            w: 150,
            h: 120,
            components: &components,
            scans: &[&[0, 1, 2]],
            restart_interval: 0,
            extra: &[],
            quantisation: 3,
        };
        let mut blocks = |_| {
            let mut block = [0; order::BLOCK];
            block[..4].fill_with(|| values.below(40) as i16 - 20);
            block
        };
        let bytes = picture.write(&mut blocks);
        let (mut whole, mut part) = (Pixels::default(), Pixels::default());
        for mut decoder in decoders() {
            let size = decoder.size(&bytes).unwrap();
            decoder.decode(&bytes, Region::all(size), &mut whole).unwrap();
            for _ in 0..20 {
                let region = random.region(size);
                decoder.decode(&bytes, region, &mut part).unwrap_or_else(|e| panic!("{components:?} {region:?}: {e}"));
                assert_part_of(&whole, &part, region, &format!("{components:?}"));
            }
        }
    }
}

#[test]
fn bytes_between_the_scan_and_the_end_marker_do_no_harm() {
    let size = Size { w: 40, h: 40 };
    let mut bytes = encode(&picture(size, &mut Lcg(5)), size, 80, Subsampling::S420, false).unwrap();
    let mut turbo = Turbo::new().unwrap();
    let (mut clean, mut pixels) = (Pixels::default(), Pixels::default());
    turbo.decode(&bytes, Region::all(size), &mut clean).unwrap();
    let end = bytes.len() - 2;
    bytes.splice(end..end, [0, 0, 0]);
    turbo.decode(&bytes, Region::all(size), &mut pixels).unwrap();
    assert_eq!(clean.rgb(), pixels.rgb());
}

#[test]
fn data_after_the_last_mcu_is_rejected_if_restart_markers_follow_it() {
    let mut random = Lcg(11);
    let picture = writer::Picture {
        w: 40,
        h: 9,
        components: &[(1, 0x11)],
        scans: &[&[0]],
        restart_interval: 2,
        extra: &[],
        quantisation: 3,
    };
    let bytes = picture.write(&mut equal::noise(&mut random));
    let end = bytes.len() - 2;
    let last = bytes.windows(2).rposition(|pair| pair[0] == 0xff && (0xd0..0xd8).contains(&pair[1])).unwrap();
    let next = |k: u8| [0xff, 0xd0 + (bytes[last + 1] - 0xd0 + k) % 8];
    let mut more = bytes.clone();
    more.splice(end..end, [&next(1)[..], &[5, 6, 7], &next(2), &[8]].concat());
    let mut marker = bytes.clone();
    marker.splice(end..end, next(1));
    let (mut whole, mut pixels) = (Pixels::default(), Pixels::default());
    for mut decoder in decoders() {
        let size = decoder.size(&bytes).unwrap();
        decoder.decode(&bytes, Region::all(size), &mut whole).unwrap();
        // A single marker is harmless.
        decoder.decode(&marker, Region::all(size), &mut pixels).unwrap();
        assert_eq!(whole.rgb(), pixels.rgb());
        let refused = decoder.decode(&more, Region::all(size), &mut pixels).unwrap_err();
        assert!(refused.to_string().contains("extraneous bytes before marker"), "{refused}");
    }
}

#[test]
fn a_picture_without_its_tables_is_rejected_after_any_picture_that_has_them() {
    let size = Size { w: 40, h: 40 };
    let whole = encode(&picture(size, &mut Lcg(8)), size, 80, Subsampling::S420, false).unwrap();
    for marker in [0xdb, 0xc4] {
        // The first table of this kind is replaced by an unknown kind of segment, which is skipped.
        let mut cut = whole.clone();
        let segment = cut.windows(2).position(|w| w == [0xff, marker]).unwrap();
        cut[segment + 1] = 0xe5;
        for mut decoder in decoders() {
            let mut pixels = Pixels::default();
            decoder.decode(&whole, Region::all(size), &mut pixels).unwrap();
            let outcome = decoder.decode(&cut, Region::all(size), &mut pixels);
            // libjpeg-turbo has the standard Huffman tables, which these are.
            assert_eq!(outcome.is_ok(), marker == 0xc4, "{marker:x}");
        }
    }
    // The Huffman tables of the picture before are not kept either: without its native, the picture decodes as it does
    // first.
    let components = [(1, 0x11)];
    let other = writer::Picture {
        w: 40,
        h: 40,
        components: &components,
        scans: &[&[0]],
        restart_interval: 0,
        extra: &[],
        quantisation: 2,
    };
    let other = other.write(&mut |_| [1; order::BLOCK]);
    let mut cut = other.clone();
    for _ in 0..2 {
        let segment = cut.windows(2).position(|w| w == [0xff, 0xc4]).unwrap();
        cut[segment + 1] = 0xe5;
    }
    for (mut alone, mut later) in decoders().into_iter().zip(decoders()) {
        let (mut want, mut got) = (Pixels::default(), Pixels::default());
        later.decode(&other, Region::all(size), &mut got).unwrap();
        let with_its_own = got.rgb().to_vec();
        alone.decode(&cut, Region::all(size), &mut want).unwrap();
        later.decode(&cut, Region::all(size), &mut got).unwrap();
        assert_eq!(want.rgb(), got.rgb());
        assert_ne!(with_its_own, got.rgb(), "the standard tables give different pixels");
    }
    // A file of tables has no size, not even the size of the picture before.
    let tables = [&whole[..whole.windows(2).position(|w| w == [0xff, 0xc0]).unwrap()], &[0xff, 0xd9]].concat();
    for mut decoder in decoders() {
        decoder.size(&whole).unwrap();
        assert!(decoder.size(&tables).is_err());
    }
}

#[test]
fn pictures_that_cannot_be_encoded_are_rejected() {
    assert!(encode(&[0; 3], Size { w: 1, h: 2 }, 90, Subsampling::S444, false).is_err());
    assert!(encode(&[], Size { w: 0, h: 0 }, 90, Subsampling::S444, false).is_err());
    assert!(encode(&[0; 3], Size { w: 1, h: 1 }, 0, Subsampling::S444, false).is_err());
}
