//! Stream weights to samples per epoch, computed once, from the constructor's seed.

use super::config::Weight;
use super::error::OrderError;
use super::rng::{ChooseScratch, Generator};
use super::shape::SAMPLES_MAX;

/// Samples of an epoch by stream.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochShares {
    /// Samples of each stream in an epoch.
    pub choose: Vec<u64>,
    /// Each stream's share of the epoch, as a double in the reference's rounding.
    pub proportion: Vec<f64>,
    /// Samples of an epoch: the sum of `choose`.
    pub epoch_size: u64,
}

/// Returns the shares of streams that have `samples` samples each.
///
/// # Errors
/// The weights are mixed, out of range or choose nothing.
pub fn epoch_shares(
    weights: &[Weight],
    samples: &[u64],
    epoch_size: Option<u64>,
    seed: u64,
) -> Result<EpochShares, OrderError> {
    let epoch_size = epoch_size.filter(|&size| size > 0);
    OrderError::unless(epoch_size.unwrap_or(0) <= SAMPLES_MAX, "epoch_size", "at most 2^48")?;
    let weights: Vec<Weight> =
        (0..samples.len()).map(|stream| weights.get(stream).copied().unwrap_or_default()).collect();
    let is_relative = |weight: &Weight| matches!(weight, Weight::Proportion(_));
    if let Some(stream) = weights.iter().position(|weight| is_relative(weight) != is_relative(&weights[0])) {
        return Err(OrderError::MixedWeights { stream: stream as u32 });
    }
    if weights.first().is_some_and(is_relative) {
        let proportions = weights.iter().enumerate().map(|(stream, &weight)| match weight {
            Weight::Proportion(p) if p.is_finite() && p >= 0.0 => Ok(p),
            _ => Err(bad(stream, "must be finite and not negative")),
        });
        let proportions = proportions.collect::<Result<_, _>>()?;
        return relative(proportions, epoch_size.unwrap_or_else(|| samples.iter().sum()), seed);
    }
    match epoch_size {
        None => absolute(weights.into_iter().zip(samples.iter().copied())),
        Some(epoch_size) if weights.iter().all(|&weight| weight == Weight::Unset) => {
            relative(samples.iter().map(|&n| n as f64).collect(), epoch_size, seed)
        }
        Some(_) => Err(OrderError::EpochSizeWithAbsoluteWeights),
    }
}

fn relative(mut proportion: Vec<f64>, epoch_size: u64, seed: u64) -> Result<EpochShares, OrderError> {
    let sum = pairwise_sum(&proportion);
    if !(sum > 0.0 && sum.is_finite()) {
        return Err(OrderError::BadProportions);
    }
    for p in &mut proportion {
        *p /= sum;
    }
    let mut choose: Vec<u64> = proportion.iter().map(|p| (epoch_size as f64 * p) as u64).collect();
    let given: u64 = choose.iter().sum();
    let streams = choose.len() as u64;
    let shortfall = epoch_size.checked_sub(given).filter(|&s| s <= streams).ok_or(OrderError::BadProportions)?;
    let mut scratch = ChooseScratch::default();
    for stream in Generator::new(u128::from(seed)).choose_sorted(streams as u32, shortfall as u32, &mut scratch) {
        choose[*stream as usize] += 1;
    }
    Ok(EpochShares { choose, proportion, epoch_size })
}

fn absolute(streams: impl Iterator<Item = (Weight, u64)>) -> Result<EpochShares, OrderError> {
    let mut choose = Vec::new();
    for (stream, (weight, samples)) in streams.enumerate() {
        choose.push(match weight {
            Weight::Repeat(repeat) if repeat >= 0.0 && repeat * samples as f64 <= SAMPLES_MAX as f64 => {
                (repeat * samples as f64) as u64
            }
            Weight::Repeat(_) => {
                return Err(bad(stream, "must not be negative and must not come to more than 2^48 samples"));
            }
            Weight::Choose(choose) if choose <= SAMPLES_MAX => choose,
            Weight::Choose(_) => return Err(bad(stream, "must not be more than 2^48 samples")),
            Weight::Unset | Weight::Proportion(_) => samples,
        });
    }
    let epoch_size = choose.iter().try_fold(0_u64, |sum, &c| Some(sum + c).filter(|&sum| sum <= SAMPLES_MAX));
    let epoch_size =
        epoch_size.ok_or(bad(0, "and the weights of the remaining streams come to more than 2^48 samples"))?;
    // An empty epoch fails when its samples are drawn; its shares would be NaN.
    let proportion = choose.iter().map(|&c| c as f64 / epoch_size as f64).collect();
    Ok(EpochShares { choose, proportion, epoch_size })
}

fn bad(stream: usize, why: &'static str) -> OrderError {
    OrderError::BadWeight { stream: stream as u32, why }
}

/// numpy's sum of doubles: eight running sums in blocks of up to 128, halves above. The shares depend on its rounding.
fn pairwise_sum(values: &[f64]) -> f64 {
    let n = values.len();
    if n < 8 {
        return values.iter().sum();
    }
    if n > 128 {
        let half = n / 2 - n / 2 % 8;
        return pairwise_sum(&values[..half]) + pairwise_sum(&values[half..]);
    }
    let mut lanes = [0.0; 8];
    lanes.copy_from_slice(&values[..8]);
    let chunks = values[8..].chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    rest.iter().fold(((a + b) + (c + d)) + ((e + f) + (g + h)), |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_weights_are_used_unchanged() {
        let weights = [Weight::Unset, Weight::Repeat(0.5), Weight::Choose(7)];
        let shares = epoch_shares(&weights, &[10, 9, 3], None, 0).expect("good weights");
        assert_eq!(shares.choose, [10, 4, 7]);
        assert_eq!(shares.epoch_size, 21);
    }

    #[test]
    fn relative_weights_add_up_to_the_epoch() {
        let weights = [Weight::Proportion(1.0), Weight::Proportion(2.0), Weight::Proportion(4.0)];
        let shares = epoch_shares(&weights, &[10, 9, 3], Some(1000), 9176).expect("good weights");
        assert_eq!(shares.choose.iter().sum::<u64>(), 1000);
        assert_eq!(shares.epoch_size, 1000);
    }

    #[test]
    fn weights_of_two_kinds_do_not_mix() {
        let weights = [Weight::Unset, Weight::Proportion(1.0)];
        assert_eq!(epoch_shares(&weights, &[1, 1], None, 0), Err(OrderError::MixedWeights { stream: 1 }));
        assert_eq!(
            epoch_shares(&[Weight::Repeat(1.0)], &[1], Some(5), 0),
            Err(OrderError::EpochSizeWithAbsoluteWeights)
        );
    }

    #[test]
    fn absurd_weights_are_rejected() {
        for weight in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(epoch_shares(&[Weight::Proportion(weight)], &[5], None, 0).is_err());
            assert!(epoch_shares(&[Weight::Repeat(weight)], &[5], None, 0).is_err());
        }
        assert!(epoch_shares(&[Weight::Proportion(0.0)], &[5], None, 0).is_err());
        assert!(epoch_shares(&[Weight::Choose(u64::MAX)], &[5], None, 0).is_err());
    }
}
