use super::*;
use crate::error::ErrorKind;

struct Lcg(u64);

impl Lcg {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(n)) as u32
    }
}

/// Edges, ramps and noise, so that every kind of upsampling shows.
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

const KINDS: [Subsampling; 7] = [
    Subsampling::S444,
    Subsampling::S422,
    Subsampling::S420,
    Subsampling::S440,
    Subsampling::S411,
    Subsampling::S441,
    Subsampling::Grey,
];

fn assert_part_of(whole: &Pixels, part: &Pixels, wanted: Region, what: &str) {
    let (all, have) = (whole.region(), part.region());
    assert!(have.x <= wanted.x && have.x + have.w >= wanted.x + wanted.w, "{what}");
    assert!(have.y <= wanted.y && have.y + have.h >= wanted.y + wanted.h, "{what}");
    for y in wanted.y..wanted.y + wanted.h {
        let row = |p: &Pixels, r: Region| {
            let start = ((y - r.y) * r.w + wanted.x - r.x) as usize * 3;
            p.rgb()[start..start + wanted.w as usize * 3].to_vec()
        };
        assert_eq!(row(whole, all), row(part, have), "{what} row {y}");
    }
}

#[test]
fn a_region_has_the_pixels_of_the_whole() {
    let mut random = Lcg(1);
    let mut turbo = Turbo::new().unwrap();
    let (mut whole, mut part) = (Pixels::new(), Pixels::new());
    for kind in KINDS {
        for progressive in [false, true] {
            for (w, h) in [(1, 1), (9, 3), (16, 16), (17, 33), (31, 64), (97, 75), (150, 131)] {
                let size = Size { w, h };
                let bytes = encode(&picture(size, &mut random), size, 90, kind, progressive).unwrap();
                assert_eq!(turbo.size(&bytes).unwrap(), size);
                turbo.decode(&bytes, Region::all(size), &mut whole).unwrap();
                assert_eq!(whole.region(), Region::all(size));
                for _ in 0..40 {
                    let (x, y) = (random.below(w), random.below(h));
                    let wanted = Region { x, y, w: 1 + random.below(w - x), h: 1 + random.below(h - y) };
                    turbo.decode(&bytes, wanted, &mut part).unwrap();
                    assert_part_of(&whole, &part, wanted, &format!("{kind:?} {progressive} {w}x{h} {wanted:?}"));
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
    // A single component's factors mean nothing, but many encoders write 2 x 2.
    assert_eq!(odd[frame + 11], 0x11);
    odd[frame + 11] = 0x22;
    let mut turbo = Turbo::new().unwrap();
    let (mut whole, mut part) = (Pixels::new(), Pixels::new());
    turbo.decode(&plain, Region::all(size), &mut whole).unwrap();
    for wanted in [Region::all(size), Region { x: 21, y: 13, w: 30, h: 29 }, Region { x: 60, y: 50, w: 15, h: 11 }] {
        turbo.decode(&odd, wanted, &mut part).unwrap();
        assert_part_of(&whole, &part, wanted, &format!("{wanted:?}"));
    }
}

#[test]
fn a_region_leaves_most_of_a_large_picture_alone() {
    let size = Size { w: 320, h: 240 };
    let bytes = encode(&picture(size, &mut Lcg(2)), size, 90, Subsampling::S420, false).unwrap();
    let mut pixels = Pixels::new();
    Turbo::new().unwrap().decode(&bytes, Region { x: 100, y: 50, w: 30, h: 20 }, &mut pixels).unwrap();
    assert_eq!(pixels.region(), Region { x: 96, y: 50, w: 36, h: 20 });
}

#[test]
fn a_truncated_picture_is_an_error_wherever_the_wanted_pixels_are_missing() {
    let size = Size { w: 64, h: 64 };
    let mut turbo = Turbo::new().unwrap();
    let mut pixels = Pixels::new();
    for progressive in [false, true] {
        let bytes = encode(&picture(size, &mut Lcg(3)), size, 90, Subsampling::S420, progressive).unwrap();
        for cut in 0..bytes.len() - 8 {
            let whole = Region::all(size);
            assert!(turbo.decode(&bytes[..cut], whole, &mut pixels).is_err(), "{progressive} {cut} of {}", bytes.len());
        }
        turbo.decode(&bytes, Region::all(size), &mut pixels).unwrap();
    }
}

#[test]
fn changed_bytes_never_do_worse_than_an_error() {
    let size = Size { w: 48, h: 40 };
    let mut random = Lcg(4);
    let mut turbo = Turbo::new().unwrap();
    let mut pixels = Pixels::new();
    let mut errors = 0;
    for round in 0..3000 {
        let kind = KINDS[round % KINDS.len()];
        let mut bytes = encode(&picture(size, &mut random), size, 80, kind, round % 2 == 0).unwrap();
        for _ in 0..1 + random.below(8) {
            let at = random.below(bytes.len() as u32) as usize;
            bytes[at] = random.below(256) as u8;
        }
        let Ok(found) = turbo.size(&bytes) else {
            errors += 1;
            continue;
        };
        if u64::from(found.w) * u64::from(found.h) > 1 << 20 {
            continue;
        }
        let wanted = Region { x: found.w / 3, y: found.h / 3, w: found.w.div_ceil(2), h: found.h.div_ceil(2) };
        let wanted = Region { w: wanted.w.min(found.w - wanted.x), h: wanted.h.min(found.h - wanted.y), ..wanted };
        errors += u32::from(turbo.decode(&bytes, wanted, &mut pixels).is_err());
    }
    assert!(errors > 300, "{errors}");
    // The instance still works after all that.
    let bytes = encode(&picture(size, &mut random), size, 80, Subsampling::S444, false).unwrap();
    turbo.decode(&bytes, Region::all(size), &mut pixels).unwrap();
}

#[test]
fn bytes_between_the_scan_and_the_end_marker_do_no_harm() {
    let size = Size { w: 40, h: 40 };
    let mut bytes = encode(&picture(size, &mut Lcg(5)), size, 80, Subsampling::S420, false).unwrap();
    let mut turbo = Turbo::new().unwrap();
    let (mut clean, mut pixels) = (Pixels::new(), Pixels::new());
    turbo.decode(&bytes, Region::all(size), &mut clean).unwrap();
    let end = bytes.len() - 2;
    bytes.splice(end..end, [0, 0, 0]);
    turbo.decode(&bytes, Region::all(size), &mut pixels).unwrap();
    assert_eq!(clean.rgb(), pixels.rgb());
}

#[test]
fn twelve_bits_are_refused_as_unsupported() {
    let size = Size { w: 8, h: 8 };
    let mut bytes = encode(&picture(size, &mut Lcg(6)), size, 80, Subsampling::S444, false).unwrap();
    let frame = bytes.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    // Twelve bits exist in extended sequential frames only.
    bytes[frame + 1] = 0xc1;
    bytes[frame + 4] = 12;
    assert_eq!(Turbo::new().unwrap().size(&bytes).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn pictures_that_cannot_be_written_are_refused() {
    assert!(encode(&[0; 3], Size { w: 1, h: 2 }, 90, Subsampling::S444, false).is_err());
    assert!(encode(&[], Size { w: 0, h: 0 }, 90, Subsampling::S444, false).is_err());
    assert!(encode(&[0; 3], Size { w: 1, h: 1 }, 0, Subsampling::S444, false).is_err());
}
