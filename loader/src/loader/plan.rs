//! From the arguments to what the parts want: the order's configuration, the fields' plans, the memory's sizes.

use crate::catalog::Catalog;
use crate::config::{LoaderConfig, StreamConfig};
use crate::decode::{Column, FieldPlan};
use crate::error::{Error, Result};
use crate::format::{Encoding, Layout};
use crate::order::{OrderConfig, Weight, World};
use crate::sync::Arc;

/// The order's configuration and world.
pub(super) fn order_of(config: &LoaderConfig) -> Result<(OrderConfig, World)> {
    let weight = |s: &StreamConfig| match (s.proportion, s.repeat, s.choose) {
        (Some(p), _, _) => Weight::Proportion(p),
        (_, Some(r), _) => Weight::Repeat(r),
        (_, _, Some(c)) => Weight::Choose(c),
        _ => Weight::Unset,
    };
    let order = OrderConfig {
        shuffle: config.shuffle,
        shuffle_algo: config.shuffle_algo.parse()?,
        shuffle_seed: config.shuffle_seed,
        shuffle_block_size: config.shuffle_block_size,
        partition_algo: config.partition_algo.parse()?,
        num_canonical_nodes: config.num_canonical_nodes.map(u64::from),
        batch_size: config.batch_size.into(),
        sampling_method: config.sampling_method.parse()?,
        sampling_granularity: config.sampling_granularity.into(),
        batching_method: config.batching_method.parse()?,
        replication: config.replication,
        epoch_size: config.epoch_size,
        weights: config.streams.iter().map(weight).collect(),
    };
    let ranks_per_node = config.world.local_world_size;
    Ok((order, World { nodes: config.world.nodes(), ranks_per_node, workers_per_rank: 1 }))
}

/// A plan of the fields for each layout of the data set; all have the same outputs.
pub(super) fn fields_of(config: &LoaderConfig, catalog: &Catalog) -> Result<Vec<Arc<FieldPlan>>> {
    let compile =
        |layout: &Arc<Layout>| FieldPlan::compile(config.fields.as_deref(), &columns_of(layout), config.augment_seed());
    let plans: Vec<Arc<FieldPlan>> = catalog.layouts().iter().map(compile).collect::<Result<_>>()?;
    for (plan, layout) in plans.iter().zip(catalog.layouts()).skip(1) {
        if plan.outputs() != plans[0].outputs() {
            return Err(Error::config(
                "the streams' columns differ: name the fields so that all give the same outputs",
            )
            .with("columns", describe(&catalog.layouts()[0]))
            .with("other columns", describe(layout)));
        }
    }
    if plans[0].outputs().is_empty() {
        return Err(Error::config("there is no field to deliver: give at least one"));
    }
    Ok(plans)
}

/// The columns in the decoder's words.
fn columns_of(layout: &Layout) -> Vec<Column> {
    let text = layout.format.is_split();
    let column = |c: &crate::format::Column| {
        let encoding = match (&c.encoding, text) {
            (Encoding::StrInt, true) => "int".to_owned(),
            (Encoding::StrFloat, true) => "float".to_owned(),
            (encoding, _) => encoding.to_string(),
        };
        Column { name: c.name.clone(), encoding, text }
    };
    layout.columns.iter().map(column).collect()
}

fn describe(layout: &Layout) -> String {
    layout.columns.iter().map(|c| format!("{}: {}", c.name, c.encoding)).collect::<Vec<_>>().join(", ")
}

/// Parses a size in bytes: `1000`, `"64mb"`, `"2.5 GiB"`; units are powers of 1,024 as in the reference.
///
/// # Errors
///
/// `Config`, naming the text.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let clean = text.trim().to_ascii_lowercase().replace(['_', ' '], "");
    let digits = clean.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(clean.len());
    let (number, unit) = clean.split_at(digits);
    let power = match unit {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        "t" | "tb" | "tib" => Some(40),
        "p" | "pb" | "pib" => Some(50),
        _ => None,
    };
    let bytes = power.zip(number.parse::<f64>().ok()).map(|(power, n)| n * f64::from(power).exp2());
    bytes
        .filter(|b| b.is_finite() && *b < 9e18)
        .map(|b| b as u64)
        .ok_or_else(|| Error::config(format!("`{text}` is no size: write bytes as a number, or for example \"2gb\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_reference_reads_them() {
        for (text, bytes) in
            [("1000", 1000), ("64mb", 64 << 20), ("2.5 GiB", 5 << 29), ("0b", 0), ("1_000kb", 1_024_000)]
        {
            assert_eq!(parse_bytes(text).expect(text), bytes);
        }
        for text in ["", "mb", "1xb", "-1", "1e99gb", "nan"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
