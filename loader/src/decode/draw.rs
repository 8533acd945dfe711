//! Random draws that belong to a sample, not to a thread.
//!
//! Every random operation draws from Philox4x32-10, a counter-based generator: the numbers are a pure function of
//! (augment seed, epoch, stream, draw, output field, operation). They do not depend on the thread, the order of
//! decoding or a resume, so crops and flips are the same on one GPU and on a thousand.

/// Version of this file and of the parameter distributions in `geometry`. It is part of a checkpoint: a different
/// version means different crops for the rest of the run.
pub const DRAWS_VERSION: u32 = 1;

/// Identifies one occurrence of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DrawKey {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The stream's number among the data set's streams.
    pub stream: u32,
    /// Index in the epoch's resampled list before partitioning, so two occurrences of an oversampled sample differ.
    pub draw: u64,
}

/// Keeps the keys of functions apart from the keys of all further uses of the seed. It is part of a run's results: do
/// not change it.
const FUNCTION: u64 = 0x6d61_705f_7079_0001;

impl DrawKey {
    /// Returns the key of the generator that a program's own function of the sample gets. Its generator is numpy's
    /// Philox4x64, so it has nothing in common with the draws here.
    pub fn of_function(self, augment_seed: u64) -> u128 {
        let run = mix(mix(mix(mix(augment_seed) ^ FUNCTION) ^ self.epoch) ^ u64::from(self.stream));
        (u128::from(self.draw) << 64) | u128::from(run)
    }
}

/// Operation that draws. The numbers are part of [`DRAWS_VERSION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RandomOp {
    /// The box of a random-resized crop.
    ResizedCrop = 1,
    /// The decision to flip.
    HorizontalFlip = 2,
    /// The position of a random crop.
    Crop = 3,
    /// The size of a random resize.
    Resize = 4,
    /// The filter of a random-resized crop.
    Filter = 5,
    /// The parts of a document that is rearranged for fill-in-the-middle.
    FillInMiddle = 6,
    /// The tokens of a document that a model predicts from the rest.
    MaskedTokens = 7,
}

/// Draws of one output field (or of one `Joint`, where the fields share them).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldDraws {
    key: u64,
}

impl FieldDraws {
    /// Returns the draws of the field `name` under `augment_seed`. The name counts, not the position, so that a second
    /// field in the list does not change this one's crops.
    pub fn new(augment_seed: u64, name: &str) -> Self {
        // FNV-1a: short, stable, and names are not hostile.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self { key: mix(mix(augment_seed) ^ hash) }
    }

    /// Returns the numbers for the `occurrence`-th operation of one kind in the field's list.
    pub fn of(self, key: DrawKey, operation: RandomOp, occurrence: u32) -> Draws {
        self.numbered(key, operation as u32, occurrence)
    }

    /// Returns the draws of a view of the field. The first one has the draws of the field.
    pub fn view(self, view: u32) -> Self {
        // Operations have smaller numbers.
        if view == 0 { self } else { self.part(VIEWS + view) }
    }

    fn numbered(self, key: DrawKey, operation: u32, occurrence: u32) -> Draws {
        let absorbed = mix(mix(self.key ^ key.epoch) ^ u64::from(key.stream));
        Draws {
            key: [absorbed as u32, (absorbed >> 32) as u32],
            // The low half of the last word is the block number.
            counter: [key.draw as u32, (key.draw >> 32) as u32, operation, occurrence << BLOCK_BITS],
            block: [0; 4],
            used: 4,
        }
    }

    /// Returns the draws of a part with a key that is different for each number.
    fn part(self, number: u32) -> Self {
        Self { key: mix(self.key ^ mix(u64::from(number))) }
    }
}

/// Draws of one operation of a field for one sample. Operations inside of it have their own, by their positions.
#[derive(Clone, Copy, Debug)]
pub struct OpDraws {
    field: FieldDraws,
    key: DrawKey,
}

impl OpDraws {
    /// Returns the draws of the `occurrence`-th operation of the kind `number` in the list of a field. Different kinds
    /// do not count, so that an operation that is added does not change the draws of the rest.
    pub fn new(field: FieldDraws, key: DrawKey, number: u32, occurrence: u32) -> Self {
        Self { field: field.part(number).part(occurrence), key }
    }

    /// Returns the draws of the operation at a position inside of this one.
    pub fn part(self, place: u32) -> Self {
        Self { field: self.field.part(place), ..self }
    }

    /// Returns the draws for a list of operations within this one, with the methods of a field's draws.
    pub fn field(self) -> FieldDraws {
        self.field
    }

    /// Returns the operation's numbers, from the first on.
    pub fn numbers(self) -> Draws {
        // No operation of `RandomOp` has the number 0.
        self.field.numbered(self.key, 0, 0)
    }
}

/// Number of the part that the views are counted from.
const VIEWS: u32 = 1 << 16;

/// Bits of the block number within one operation. The longest operation, ten tries of four numbers, needs 20 blocks of
/// four words.
const BLOCK_BITS: u32 = 16;

/// Stream of random numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    key: [u32; 2],
    counter: [u32; 4],
    block: [u32; 4],
    used: usize,
}

impl Draws {
    fn word(&mut self) -> u32 {
        if self.used == 4 {
            self.block = philox4x32(self.counter, self.key);
            self.counter[3] = self.counter[3].wrapping_add(1);
            self.used = 0;
        }
        let word = self.block[self.used];
        self.used += 1;
        word
    }

    /// Uniform in [0, 1), with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        let (low, high) = (u64::from(self.word()), u64::from(self.word()));
        ((high << 32 | low) >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in [low, high).
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    /// Uniform in 0 .. `n`; 0 for `n` = 0. Multiply and shift: for the sizes of pictures the bias is below 1e-13.
    pub fn below(&mut self, n: u32) -> u32 {
        let (low, high) = (u64::from(self.word()), u64::from(self.word()));
        ((u128::from(high << 32 | low) * u128::from(n)) >> 64) as u32
    }

    /// Fills `places` with its indices in an order; all orders are equally probable. It has at most 256 elements.
    pub fn shuffle(&mut self, places: &mut [u8]) {
        for (index, place) in places.iter_mut().enumerate() {
            *place = index as u8;
        }
        for end in (1..places.len()).rev() {
            places.swap(end, self.below(end as u32 + 1) as usize);
        }
    }

    /// Normally distributed, mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        // Box and Muller's. From 1 on down, since the logarithm of 0 is infinite.
        let (radius, turn) = (1.0 - self.unit(), self.unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
    }

    /// Two normally distributed numbers of single precision, from a word each.
    pub fn normals(&mut self) -> (f32, f32) {
        const STEP: f32 = 1.0 / (1 << 24) as f32;
        // From 1 on down, since the logarithm of 0 is infinite.
        let radius = 1.0 - (self.word() >> 8) as f32 * STEP;
        let turn = std::f32::consts::TAU * ((self.word() >> 8) as f32 * STEP);
        let radius = (-2.0 * radius.ln()).sqrt();
        (radius * turn.cos(), radius * turn.sin())
    }

    /// Returns a source of the normally distributed numbers of [`normals`](Self::normals), in sequence.
    pub fn into_normals(mut self) -> impl FnMut() -> f32 {
        let mut second = None;
        move || {
            second.take().unwrap_or_else(|| {
                let (first, other) = self.normals();
                second = Some(other);
                first
            })
        }
    }

    /// Gamma-distributed with this shape, above 0, and scale 1.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            // Of the next larger shape, reduced; the lower bound keeps sums of results above 0.
            let power = (1.0 - self.unit()).powf(1.0 / shape);
            return (self.gamma(shape + 1.0) * power).max(f64::MIN_POSITIVE);
        }
        // Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. A try succeeds with more than
        // 95 %, so the bound is never reached, but a loop has one.
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        for _ in 0..64 {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            let u = 1.0 - self.unit();
            if v > 0.0 && u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
        d
    }
}

/// splitmix64's finaliser: a bijection that spreads every bit.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Philox4x32 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
fn philox4x32(mut c: [u32; 4], mut k: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let p0 = u64::from(c[0]) * 0xd251_1f53;
        let p1 = u64::from(c[2]) * 0xcd9e_8d57;
        c = [(p1 >> 32) as u32 ^ c[1] ^ k[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ k[1], p0 as u32];
        k = [k[0].wrapping_add(0x9e37_79b9), k[1].wrapping_add(0xbb67_ae85)];
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_vectors() {
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox4x32([!0; 4], [!0; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox4x32([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn the_numbers_of_version_1_do_not_change() {
        let key = DrawKey { epoch: 3, stream: 1, draw: 123_456_789_012 };
        let mut draws = FieldDraws::new(9176, "x").of(key, RandomOp::ResizedCrop, 0);
        let words: Vec<u32> = (0..6).map(|_| draws.word()).collect();
        assert_eq!(DRAWS_VERSION, 1);
        assert_eq!(words, RECORDED);
    }

    const RECORDED: [u32; 6] = [0xc832_7f19, 0xe924_db1d, 0x2332_d69a, 0xddc8_7be3, 0xf641_64c4, 0x45c7_d970];

    #[test]
    fn every_part_of_the_key_changes_the_numbers() {
        let first = |seed, name: &str, epoch, stream, draw, op, nth| {
            FieldDraws::new(seed, name).of(DrawKey { epoch, stream, draw }, op, nth).unit()
        };
        let base = first(1, "x", 2, 3, 4, RandomOp::ResizedCrop, 0);
        assert_eq!(base, first(1, "x", 2, 3, 4, RandomOp::ResizedCrop, 0));
        for other in [
            first(2, "x", 2, 3, 4, RandomOp::ResizedCrop, 0),
            first(1, "y", 2, 3, 4, RandomOp::ResizedCrop, 0),
            first(1, "x", 3, 3, 4, RandomOp::ResizedCrop, 0),
            first(1, "x", 2, 4, 4, RandomOp::ResizedCrop, 0),
            first(1, "x", 2, 3, 5, RandomOp::ResizedCrop, 0),
            first(1, "x", 2, 3, 4 + (1 << 32), RandomOp::ResizedCrop, 0),
            first(1, "x", 2, 3, 4, RandomOp::HorizontalFlip, 0),
            first(1, "x", 2, 3, 4, RandomOp::ResizedCrop, 1),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn numbers_are_spread_evenly_over_draws() {
        let field = FieldDraws::new(0, "x");
        let mut counts = [0_u32; 16];
        let mut sum = 0.0;
        for draw in 0..16_000 {
            let mut draws = field.of(DrawKey { epoch: 0, stream: 0, draw }, RandomOp::HorizontalFlip, 0);
            sum += draws.unit();
            counts[draws.below(16) as usize] += 1;
        }
        assert!((sum / 16_000.0 - 0.5).abs() < 0.01, "{sum}");
        assert!(counts.iter().all(|&n| (850..1150).contains(&n)), "{counts:?}");
    }

    #[test]
    fn operations_and_their_parts_have_different_numbers() {
        let key = DrawKey { epoch: 1, stream: 0, draw: 7 };
        let of = |number, occurrence| OpDraws::new(FieldDraws::new(1, "x"), key, number, occurrence);
        let mut seen = std::collections::HashSet::new();
        for number in 0..9 {
            for occurrence in 0..9 {
                let draws = of(number, occurrence);
                assert_eq!(draws.numbers().word(), of(number, occurrence).numbers().word());
                assert!(seen.insert(draws.numbers().unit().to_bits()));
                assert!((0..9).all(|place| seen.insert(draws.part(place).numbers().unit().to_bits())));
            }
        }
    }

    #[test]
    fn numbers_of_each_distribution_have_its_mean_and_deviation() {
        let mut draws = OpDraws::new(FieldDraws::new(1, "x"), DrawKey::default(), 0, 0).numbers();
        let mut moments = |draw: &mut dyn FnMut(&mut Draws) -> f64| {
            let values: Vec<f64> = (0..20_000).map(|_| draw(&mut draws)).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
            (mean, variance)
        };
        let near = |(mean, variance): (f64, f64), expected: f64, spread: f64| {
            (mean - expected).abs() < 0.03 * spread.sqrt() && (variance / spread - 1.0).abs() < 0.1
        };
        assert!(near(moments(&mut Draws::normal), 0.0, 1.0));
        assert!(near(moments(&mut |draws| f64::from(draws.normals().0)), 0.0, 1.0));
        assert!(near(moments(&mut |draws| f64::from(draws.normals().1)), 0.0, 1.0));
        for shape in [0.2, 1.0, 5.5] {
            assert!(near(moments(&mut |draws| draws.gamma(shape)), shape, shape), "{shape}");
        }
    }
}
