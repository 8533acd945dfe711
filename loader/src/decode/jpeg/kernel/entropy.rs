//! Entropy decoding with the bit instructions of x86, compiled for each level of vectors.

/// Defines `decode` and `skip` with `$features`, and `band` with `$band_features`. Blocks are stored by pairs if
/// `$by_pairs`, in zigzag order otherwise.
macro_rules! entropy {
    ($features:literal, $band_features:literal, $by_pairs:literal) => {
        #[target_feature(enable = $features)]
        pub(super) fn decode(
            blocks: &super::McuBlocks<'_>,
            at: &mut super::Position<'_>,
            count: usize,
            coefficients: &mut [i16],
        ) -> Result<(), super::Fallback> {
            blocks.decode::<$by_pairs>(at, count, coefficients)
        }

        #[target_feature(enable = $features)]
        pub(super) fn skip(
            blocks: &super::McuBlocks<'_>,
            at: &mut super::Position<'_>,
            count: usize,
        ) -> Result<(), super::Fallback> {
            blocks.skip(at, count)
        }

        #[target_feature(enable = $band_features)]
        pub(super) fn band(run: super::BandRun<'_, '_>) -> Result<(), super::Fallback> {
            run.read(|number, mask| _pdep_u64(number, mask))
        }
    };
}

pub(super) use entropy;
