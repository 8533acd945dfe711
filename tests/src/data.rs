//! Data sets for suites and the bench. The same seed produces the same bytes on every machine.
//!
//! * [`tokens`] and [`images`] write whole MDS data sets into a directory;
//! * [`picture`] and [`jpeg`] make single photograph-like images, for tests that must not depend on Python or files.

use forebay_loader::Result;
use forebay_loader::decode::geometry::Size;
use forebay_loader::decode::jpeg::{Subsampling, encode};
use forebay_loader::format::encoding::{Array, DType};
use forebay_loader::format::layout::Layout;
use forebay_loader::format::writer::{LocalDir, Options, Writer};
use forebay_loader::format::{Encoding, Index, Value};
use std::path::Path;

/// Tokens of the vocabulary that [`tokens`] draws from, as in GPT-2.
pub const VOCABULARY: u64 = 50_257;

/// Random number generator (splitmix64), equal on every machine.
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    /// Returns the generator of `seed` and `index`, so that samples can be made in any order.
    pub fn new(seed: u64, index: u64) -> Self {
        let mut draws = Self(seed ^ index.wrapping_mul(0xA076_1D64_78BD_642F));
        draws.next();
        draws
    }

    /// Returns 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "the sequence is infinite")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns an integer in `0..end`.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a number in `0..1`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Returns the tokens of sample `index`. Low numbers are frequent, as in text.
pub fn token_sample(length: usize, seed: u64, index: u64) -> Vec<u16> {
    let mut draws = Draws::new(seed, index);
    (0..length).map(|_| (draws.unit().powi(3) * VOCABULARY as f64) as u16).collect()
}

/// Writes `samples` samples of `length` uint16 in the column `tokens` (`ndarray:uint16:<length>`) into `directory`,
/// which must be empty.
///
/// # Errors
///
/// Errors of the writer.
pub fn tokens(directory: &Path, samples: u64, length: usize, seed: u64, options: Options) -> Result<Index> {
    let layout = Layout::mds([("tokens".to_owned(), Encoding::parse(&format!("ndarray:uint16:{length}"))?)])?;
    let mut writer = Writer::new(layout, Box::new(LocalDir::create(directory, false)?), options)?;
    let mut data = Vec::with_capacity(length * 2);
    for index in 0..samples {
        data.clear();
        data.extend(token_sample(length, seed, index).into_iter().flat_map(u16::to_le_bytes));
        let shape = vec![length];
        writer.write(&[Value::Array(Array { dtype: DType::UInt16, shape, data: data.as_slice().into() })])?;
    }
    writer.finish()
}

/// Writes JPEG files and their classes as the columns `image` (`jpeg`) and `class` (`int`) into `directory`, which must
/// be empty.
///
/// # Errors
///
/// The first item that is an error, and errors of the writer.
pub fn images(
    directory: &Path,
    items: impl IntoIterator<Item = Result<(Vec<u8>, i64)>>,
    options: Options,
) -> Result<Index> {
    let layout = Layout::mds([("class".to_owned(), Encoding::Int), ("image".to_owned(), Encoding::Jpeg)])?;
    let mut writer = Writer::new(layout, Box::new(LocalDir::create(directory, false)?), options)?;
    for item in items {
        let (file, class) = item?;
        writer.write(&[Value::Int(class), Value::Jpeg(file.into())])?;
    }
    writer.finish()
}

/// Returns RGB pixels with gradients, an edge, texture and sensor noise, as in photographs.
pub fn picture(size: Size, seed: u64) -> Vec<u8> {
    let mut draws = Draws::new(seed, 0);
    let waves: Vec<[f64; 4]> = (0..6)
        .map(|i| {
            let pitch = 0.006 * 2.1f64.powi(i);
            let [x, y] = [draws.unit() - 0.5, draws.unit() - 0.5];
            [x * pitch * 12.0, y * pitch * 12.0, draws.unit() * 6.3, 55.0 / (1.0 + f64::from(i))]
        })
        .collect();
    let tint: [f64; 3] = std::array::from_fn(|_| 90.0 + 80.0 * draws.unit());
    let disc =
        [draws.unit() * f64::from(size.w), draws.unit() * f64::from(size.h), f64::from(size.w.min(size.h)) * 0.3];
    let mut rgb = Vec::with_capacity(size.w as usize * size.h as usize * 3);
    for y in 0..size.h {
        for x in 0..size.w {
            let (x, y) = (f64::from(x), f64::from(y));
            let light: f64 = waves.iter().map(|[kx, ky, phase, height]| height * (kx * x + ky * y + phase).sin()).sum();
            let edge = if (x - disc[0]).hypot(y - disc[1]) < disc[2] { 45.0 } else { 0.0 };
            let noise = draws.unit() + draws.unit() + draws.unit() - 1.5;
            for (c, base) in tint.iter().enumerate() {
                let value = base + light * (1.0 - 0.2 * c as f64) + edge + 8.0 * noise;
                rgb.push(value.clamp(0.0, 255.0) as u8);
            }
        }
    }
    rgb
}

/// Returns [`picture`] as a JPEG file of quality 90 with 4:2:0 subsampling.
///
/// # Errors
///
/// `Unsupported` or `Config` for a size that JPEG does not allow.
pub fn jpeg(size: Size, seed: u64) -> Result<Vec<u8>> {
    encode(&picture(size, seed), size, 90, Subsampling::S420, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_set_of_tokens_contains_the_token_samples() {
        let folder = tempfile::tempdir().expect("a folder");
        let index = tokens(folder.path(), 5, 8, 7, Options::default()).expect("written");
        assert_eq!(index.shards.iter().map(|s| s.samples).sum::<u64>(), 5);
        let shard = std::fs::read(folder.path().join("shard.00000.mds")).expect("a shard");
        let last: Vec<u8> = token_sample(8, 7, 4).into_iter().flat_map(u16::to_le_bytes).collect();
        assert!(shard.ends_with(&last));
        assert_ne!(token_sample(8, 7, 4), token_sample(8, 8, 4));
    }

    #[test]
    fn a_data_set_of_images_contains_the_bytes_of_the_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = jpeg(Size { w: 64, h: 48 }, 7).expect("encoded");
        images(folder.path(), [Ok((file.clone(), 3))], Options::default()).expect("written");
        let shard = std::fs::read(folder.path().join("shard.00000.mds")).expect("a shard");
        assert!(shard.windows(file.len()).any(|w| w == file));
    }
}
