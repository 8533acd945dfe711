//! Conversion of the arguments: the order's configuration, and the fields' plans.

use super::filter::SampleArguments;
use crate::catalog::Catalog;
use crate::config::{ExtraOutput, LoaderConfig, StreamConfig};
use crate::decode::{FieldPlan, FieldSpec, Output, RowShape};
use crate::error::{Error, Result};
use crate::format::{FIELDS, Layout};
use crate::monitor::{Metrics, Watch, Watched, watch};
use crate::order::{OrderConfig, ShardId, Weight, World};
use crate::pipeline::MarkOutput;
use crate::stats::Stats;
use crate::store::redact;
use crate::sync::Arc;

/// Returns the order's configuration and world.
pub(super) fn order_of(config: &LoaderConfig, samples: SampleArguments) -> Result<(OrderConfig, World)> {
    let weight = |s: &StreamConfig| match (s.proportion, s.repeat, s.choose) {
        (Some(p), _, _) => Weight::Proportion(p),
        (_, Some(r), _) => Weight::Repeat(r),
        (_, _, Some(c)) => Weight::Choose(c),
        _ => Weight::Unset,
    };
    let given = &config.order;
    let order = OrderConfig {
        shuffle: config.shuffle,
        shuffle_algo: given.shuffle_algo.parse()?,
        shuffle_seed: config.seed,
        shuffle_block_size: given.shuffle_block_size,
        partition_algo: given.partition_algo.parse()?,
        num_canonical_nodes: given.num_canonical_nodes.map(u64::from),
        batch_size: config.batch_size.into(),
        sampling_method: given.sampling_method.parse()?,
        sampling_granularity: given.sampling_granularity.into(),
        batching_method: given.batching_method.parse()?,
        replication: given.replication,
        epoch_size: given.epoch_size,
        repeat_augment: given.repeat_augment,
        weights: config.streams.iter().map(weight).collect(),
        sample_weights: samples.weights,
        buckets: samples.buckets,
        // A rank that has no batch where the rest have one would leave them waiting in a collective.
        equal_ranks: true,
    };
    let ranks_per_node = config.world.local_world_size;
    Ok((order, World { nodes: config.world.nodes(), ranks_per_node, workers_per_rank: 1 }))
}

/// Returns the outputs that the plan gives.
pub(super) fn marks_of(config: &LoaderConfig) -> Vec<MarkOutput> {
    let marks = [
        (ExtraOutput::Repeat, MarkOutput::Repeat),
        (ExtraOutput::SampleIds, MarkOutput::SampleIds),
        (ExtraOutput::SampleDraws, MarkOutput::SampleDraws),
    ];
    marks.into_iter().filter(|(output, _)| config.has_extra(*output)).map(|(_, mark)| mark).collect()
}

/// Compiles the fields for each layout of the data set; all plans have the same outputs.
pub(super) fn fields_of(config: &LoaderConfig, catalog: &Catalog) -> Result<Vec<Arc<FieldPlan>>> {
    let (of_tables, has_keys) = (catalog.of_tables(), config.has_extra(ExtraOutput::SampleKeys));
    let compile = |number: usize, key: Option<&str>| {
        let layout = &catalog.layouts()[number];
        let mut fields = config.fields.clone();
        if fields.is_none() && of_tables[number] {
            // The list of a row's columns is none of the table's.
            let columns = FieldPlan::fields_of(&layout.columns).into_iter();
            fields = Some(columns.filter(|(name, _)| name != FIELDS).collect());
        }
        if has_keys {
            // No column has an empty name: all samples then have the default.
            let (column, default) = (key.unwrap_or("").to_owned(), Some("".into()));
            let fields = fields.get_or_insert_with(|| FieldPlan::fields_of(&layout.columns));
            fields.push((ExtraOutput::SampleKeys.name().to_owned(), FieldSpec::text(column, default)));
        }
        FieldPlan::compile(fields.as_deref(), &layout.columns, config.augment_seed())
    };
    let keys = catalog.key_columns();
    if has_keys && keys.iter().all(Option::is_none) {
        return Err(Error::config(
            "sample_keys is for tars and for files that are samples, and no stream has any: leave it out",
        ));
    }
    let plans = keys.into_iter().enumerate().map(|(number, key)| compile(number, key));
    let plans: Vec<Arc<FieldPlan>> = plans.collect::<Result<_>>()?;
    if let Some(other) = plans.iter().position(|plan| plan.outputs() != plans[0].outputs()) {
        return Err(unlike(config, catalog, &plans, other));
    }
    if plans[0].outputs().is_empty() {
        return Err(Error::config("there is no field to deliver: give at least one"));
    }
    Ok(plans)
}

/// Returns the error of plan number `other`, with outputs that differ from the outputs of the first one.
fn unlike(config: &LoaderConfig, catalog: &Catalog, plans: &[Arc<FieldPlan>], other: usize) -> Error {
    let (first, second) = (stream_of(catalog, 0), stream_of(catalog, other));
    let problem = if first == second { "the shards' columns differ" } else { "the streams' columns differ" };
    let differences = differences(plans[0].outputs(), plans[other].outputs());
    let change = match &config.fields {
        None => "pass `fields` that all of them can fill; a field with a `default` may lack its column",
        Some(_) => "pass these fields a `dtype` or a `shape`, so that all of them have the same",
    };
    Error::config(format!("{problem}, and so would their outputs: {differences}"))
        .with("stream", first)
        .with("columns", describe(&catalog.layouts()[0]))
        .with("second stream", second)
        .with("second columns", describe(&catalog.layouts()[other]))
        .hinting(change)
}

/// Returns the number and the name of the first stream with shards of layout number `layout`.
fn stream_of(catalog: &Catalog, layout: usize) -> String {
    let mut shards = (0..).map(ShardId);
    for (number, stream) in catalog.streams().iter().enumerate() {
        for (shard, id) in stream.index.shards.iter().zip(&mut shards) {
            if shard.samples > 0 && catalog.layout_of(id) == layout {
                return format!("{number} ({})", stream.name);
            }
        }
    }
    "unknown".to_owned()
}

/// Describes the outputs that `first` and `second` do not have in common.
fn differences(first: &[Output], second: &[Output]) -> String {
    let find = |outputs: &'_ [Output], name: &str| outputs.iter().find(|output| output.name == name).cloned();
    let only = |outputs: &[Output], others: &[Output]| {
        let names = outputs.iter().map(|output| &*output.name).filter(|name| find(others, name).is_none());
        names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let mut parts = Vec::new();
    for (names, which) in [(only(first, second), "first"), (only(second, first), "second")] {
        if !names.is_empty() {
            parts.push(format!("only the {which} has {names}"));
        }
    }
    for a in first {
        if let Some(b) = find(second, &a.name).filter(|b| b != a) {
            parts.push(format!("`{}` is {} and {}", a.name, kind_of(a), kind_of(&b)));
        }
    }
    if parts.is_empty() { "they have a different order".to_owned() } else { parts.join("; ") }
}

/// Describes the rows of an output.
fn kind_of(output: &Output) -> String {
    match &output.shape {
        RowShape::Fixed(lengths) if lengths.is_empty() => output.dtype.to_string(),
        RowShape::Fixed(lengths) => format!("{} of shape {lengths:?}", output.dtype),
        RowShape::Text => "text".to_owned(),
        RowShape::Bytes => "bytes".to_owned(),
        RowShape::RaggedArray => format!("{} arrays of any shape", output.dtype),
    }
}

fn describe(layout: &Layout) -> String {
    layout.columns.iter().map(|c| format!("{}: {}", c.name, c.encoding)).collect::<Vec<_>>().join(", ")
}

/// Lets programs ask for the figures of the loader of `config`, by its options.
pub(super) fn watch_of(config: &LoaderConfig, stats: &Arc<Stats>) -> Result<Option<Watch>> {
    let (engine, world) = (&config.engine, &config.world);
    let metrics = engine.metrics.as_deref().map(|text| Metrics::parse(text, world.local_rank)).transpose()?;
    if metrics.is_none() && !engine.monitor {
        return Ok(None);
    }
    let of_stream = |stream: &StreamConfig| match (&stream.remote, &stream.local) {
        (Some(remote), _) => redact(remote).into_owned(),
        (None, local) => local.as_deref().map_or_else(String::new, |local| local.display().to_string()),
    };
    let watched = Watched {
        stats: stats.clone(),
        rank: (world.rank, world.world_size),
        batch_size: config.batch_size,
        source: config.streams.first().map_or_else(String::new, of_stream),
    };
    watch(watched, metrics, engine.monitor).map(Some)
}
