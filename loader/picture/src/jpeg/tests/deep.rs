//! Samples with a depth that is not 8 bits: 12 bits, and lossless pictures of 2 to 16.

use super::*;
use crate::jpeg::turbo::tests::encode_deep;

/// Returns samples with ramps over the whole range, and with edges.
fn samples(size: Size, channels: u32, bits: u32) -> Vec<u16> {
    let max = (1 << bits) - 1;
    let sample = |x: u32, y: u32, c: u32| {
        let edge = if (x / 9 + y / 7).is_multiple_of(2) { max / 4 } else { 0 };
        (edge + (x + y * (c + 1)) * max / (2 * (size.w + 3 * size.h))).min(max) as u16
    };
    let pixel = |x: u32, y: u32| (0..channels).map(move |c| sample(x, y, c));
    (0..size.h).flat_map(|y| (0..size.w).flat_map(move |x| pixel(x, y))).collect()
}

/// Converts samples to bytes of RGB.
fn rgb(samples: &[u16], channels: usize, bits: u32) -> Vec<u8> {
    let max = (1 << bits) - 1;
    let byte = |sample: u16| (f64::from(sample) * 255.0 / f64::from(max)).round() as u8;
    samples.chunks(channels).flat_map(|pixel| [0, 1, 2].map(|c| byte(pixel[c % channels]))).collect()
}

#[test]
fn lossless_pictures_of_every_depth_decode_to_the_stored_samples() {
    let size = Size { w: 37, h: 29 };
    for bits in 2..=16 {
        for channels in [1, 3] {
            let stored = samples(size, channels as u32, bits);
            let subsampling = if channels == 1 { Subsampling::Grey } else { Subsampling::S444 };
            let file = encode_deep(&stored, size, bits, true, subsampling);
            let expected = rgb(&stored, channels, bits);
            for mut decoder in decoders() {
                let mut pixels = Pixels::default();
                assert_eq!(decoder.size(&file).unwrap(), size);
                decoder.decode(&file, Region { x: 3, y: 5, w: 11, h: 7 }, &mut pixels).unwrap();
                assert_eq!(pixels.region(), Region::all(size), "lossless pictures are decoded as a whole");
                assert!(pixels.rgb() == expected, "{bits} bits, {channels} channels");
            }
        }
    }
}

#[test]
fn twelve_bit_pictures_are_close_to_the_stored_samples_and_regions_equal_the_whole() {
    let size = Size { w: 83, h: 61 };
    let stored = samples(size, 3, 12);
    let expected = rgb(&stored, 3, 12);
    let mut random = Lcg(12);
    for subsampling in [Subsampling::S444, Subsampling::S422, Subsampling::S420, Subsampling::S440] {
        let file = encode_deep(&stored, size, 12, false, subsampling);
        for mut decoder in decoders() {
            let (mut whole, mut part) = (Pixels::default(), Pixels::default());
            decoder.decode(&file, Region::all(size), &mut whole).unwrap();
            let sum: u64 = whole.rgb().iter().zip(&expected).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
            assert!(sum < 2 * expected.len() as u64, "levels differ by {}", sum as f64 / expected.len() as f64);
            for _ in 0..20 {
                let region = random.region(size);
                decoder.decode(&file, region, &mut part).unwrap();
                assert_part_of(&whole, &part, region, "12 bits");
            }
        }
        let mut scaled = Pixels::default();
        let half = Scale::Half.size(size);
        Turbo::new().unwrap().decode_scaled(&file, Scale::Half, Region::all(half), &mut scaled).unwrap();
        assert_eq!(scaled.region(), Region::all(half));
    }
}

#[test]
fn a_truncated_deep_picture_is_rejected_unless_damage_is_tolerated() {
    let size = Size { w: 83, h: 61 };
    let file = encode_deep(&samples(size, 3, 12), size, 12, false, Subsampling::S420);
    let cut = &file[..file.len() / 2];
    let (mut whole, mut pixels) = (Pixels::default(), Pixels::default());
    let mut turbo = Turbo::new().unwrap();
    turbo.decode(&file, Region::all(size), &mut whole).unwrap();
    assert!(turbo.decode(cut, Region::all(size), &mut pixels).is_err());
    assert!(turbo.decode_damaged(cut, Scale::Full, &mut pixels).unwrap().is_some());
    // The row of blocks below them contributes to their chroma.
    let rows = 3 * size.w as usize * 15;
    assert!(pixels.rgb()[..rows] == whole.rgb()[..rows], "rows before the end of the data");
}
