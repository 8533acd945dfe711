//! Shares of streams in an epoch, where their proportions count tokens.

use std::sync::Arc;

use super::config::{PackConfig, ProportionUnit};
use super::lengths::TokenLengths;
use crate::config::{OrderConfig, Weight};
use crate::epoch::shares_of;
use crate::error::OrderError;
use crate::ids::StreamId;
use crate::shape::DataSetShape;
use crate::token_targets::TokenTargets;

/// Returns the shares of the streams in tokens; `None` if proportions count samples, or if there are none. An epoch has
/// the tokens of all streams, or as many as `epoch_size` documents have.
///
/// # Errors
/// Weights that are no proportions; a stream with a proportion and no token.
pub(super) fn targets_of(
    shape: &DataSetShape,
    order: &OrderConfig,
    packing: &PackConfig,
    lengths: &[Arc<TokenLengths>],
) -> Result<Option<TokenTargets>, OrderError> {
    let has_weights = order.weights.iter().any(|weight| *weight != Weight::Unset);
    if packing.proportion_unit == ProportionUnit::Samples || !has_weights {
        return Ok(None);
    }
    let are_proportions = order.weights.iter().all(|weight| matches!(weight, Weight::Proportion(_)));
    OrderError::unless(are_proportions, "the weights of the streams", "proportions where these count tokens")?;
    let proportions = shares_of(shape, order)?.proportion;
    let (mut totals, mut means) = (Vec::new(), Vec::new());
    for (stream, lengths) in lengths.iter().enumerate() {
        let counted = |&tokens: &u32| TokenTargets::counted(tokens, packing.length, packing.overflow);
        let total: u64 = lengths.values().iter().map(counted).sum();
        let samples = lengths.values().len() as u64;
        let weights = order.sample_weights.get(stream).and_then(Option::as_deref);
        let mean = match weights {
            None => total as f64 / samples as f64,
            Some(weights) => {
                let weights = weights.values().iter().map(|&weight| f64::from(weight));
                let pairs = weights.clone().zip(lengths.values());
                pairs.map(|(weight, tokens)| weight * counted(tokens) as f64).sum::<f64>() / weights.sum::<f64>()
            }
        };
        let is_good = proportions[stream] == 0.0 || mean > 0.0;
        OrderError::unless(
            is_good,
            "the streams with a proportion",
            "streams with a token that overflow does not drop",
        )?;
        totals.push((total, samples));
        means.push(mean);
    }
    let all = match order.epoch_size.filter(|&size| size > 0) {
        None => totals.iter().map(|(tokens, _)| *tokens).sum::<u64>() as f64,
        Some(size) => {
            let samples = proportions.iter().zip(&means).filter(|(share, _)| **share > 0.0);
            size as f64 / samples.map(|(share, mean)| share / mean).sum::<f64>()
        }
    };
    let targets = proportions.iter().map(|share| (share * all).round() as u64).collect();
    let (longest, overflow) = (packing.length, packing.overflow);
    Ok(Some(TokenTargets { targets, means, totals, lengths: lengths.to_vec(), longest, overflow }))
}

/// Samples of each stream to draw at first.
pub(super) fn samples_of(targets: &TokenTargets, order: &OrderConfig) -> Vec<u64> {
    let is_weighted = |stream: usize| order.sample_weights.get(stream).is_some_and(Option::is_some);
    let streams = 0..targets.targets.len();
    streams.map(|stream| targets.samples(StreamId(stream as u32), is_weighted(stream))).collect()
}
