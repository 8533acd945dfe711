//! Order functions over whole arrays. Arguments are lists of numbers; results are arrays as int64 memory.

use crate::enter;
use forebay_loader::Error;
use forebay_loader::order::{
    self, DataSetShape, EpochPlan, EpochShares, OrderConfig, OrderWarning, Partitioning, Rank, Resume, StreamId, World,
};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use std::ffi::CString;

/// Returns the draw at each position of the shuffled epoch.
#[pyfunction]
pub(crate) fn shuffle<'py>(
    py: Python<'py>,
    algo: &str,
    sizes: Vec<u64>,
    canonical: u64,
    seed: u64,
    epoch: u64,
    block: u64,
) -> PyResult<Bound<'py, PyByteArray>> {
    let mut warnings = Vec::new();
    let draws =
        enter::enter(py, || Ok(order::shuffle(algo.parse()?, &sizes, canonical, seed, epoch, block, &mut warnings)?))?;
    warn(py, &warnings)?;
    array(py, &draws, |draw| draw as i64)
}

/// Distributes `samples`: returns the shape (nodes, ranks, workers, batches, batch) and the positions, -1 for none.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python function above names them")]
pub(crate) fn partition<'py>(
    py: Python<'py>,
    algo: &str,
    samples: u64,
    canonical: u64,
    world: (u32, u32, u32),
    batch: u64,
    drop_first: u64,
    initial_nodes: Option<u64>,
) -> PyResult<([u64; 5], Bound<'py, PyByteArray>)> {
    let args = Partitioning { samples, canonical, world: shape_of(world), batch, drop_first, initial_nodes };
    let mut warnings = Vec::new();
    let (shape, ids) = enter::enter(py, || Ok(order::partition(algo.parse()?, args, &mut warnings)?))?;
    warn(py, &warnings)?;
    Ok((shape, array(py, &ids, |id| id)?))
}

/// Returns the number of samples of each shard in an epoch.
#[pyfunction]
pub(crate) fn sample_shards(
    py: Python<'_>,
    sizes: Vec<u64>,
    choose: u64,
    granularity: u64,
    seed: u64,
    epoch: u64,
) -> PyResult<Bound<'_, PyByteArray>> {
    let seed = u128::from(seed) + u128::from(epoch);
    let shares = enter::enter(py, || Ok(order::sample_shards(&sizes, choose, granularity, seed)?))?;
    array(py, &shares, |share| share as i64)
}

/// Resamples an epoch of some streams: returns the draws of each shuffle unit and the sample of each draw.
#[pyfunction]
pub(crate) fn resample<'py>(
    py: Python<'py>,
    sizes: Vec<Vec<u64>>,
    streams: Vec<(u32, u64)>,
    granularity: u64,
    share_seed: u64,
    pick_seed: u64,
) -> PyResult<(Bound<'py, PyByteArray>, Bound<'py, PyByteArray>)> {
    let streams: Vec<_> = streams.into_iter().map(|(stream, choose)| (StreamId(stream), choose)).collect();
    let (units, samples) = enter::enter(py, || {
        let shape = DataSetShape::new(&sizes)?;
        Ok(order::resample(&shape, &streams, granularity, share_seed.into(), pick_seed.into())?)
    })?;
    Ok((array(py, &units, |unit| unit as i64)?, array(py, &samples, |sample| sample as i64)?))
}

/// Returns the ids of an epoch for the whole world in the shape of [`partition`]. `plan` determines them.
#[pyfunction]
pub(crate) fn epoch_ids<'py>(
    py: Python<'py>,
    sizes: Vec<Vec<u64>>,
    plan: PlanArguments,
) -> PyResult<([u64; 5], Bound<'py, PyByteArray>)> {
    let (shape, ids, warnings) = enter::enter(py, || {
        let plan = plan.plan(&sizes)?;
        // Direct callers of the reference's function get its error too.
        plan.reject_as_reference()?;
        let world = plan.world();
        let mut ids = Vec::new();
        for rank in 0..world.ranks() as u32 {
            for worker in 0..world.workers_per_rank {
                ids.extend(plan.worker(Rank(rank), worker));
            }
        }
        let [nodes, ranks, workers] = [world.nodes, world.ranks_per_node, world.workers_per_rank].map(u64::from);
        let batches = ids.len() as u64 / (nodes * ranks * workers * plan.batch_size());
        Ok(([nodes, ranks, workers, batches, plan.batch_size()], ids, plan.warnings().to_vec()))
    })?;
    warn(py, &warnings)?;
    Ok((shape, array(py, &ids, |id| id)?))
}

/// Arguments that determine the ids of an epoch, all of them resolved.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PlanArguments {
    world: (u32, u32, u32),
    batch_size: u64,
    batching_method: String,
    sampling_method: String,
    sampling_granularity: u64,
    partition_algo: String,
    num_canonical_nodes: u64,
    initial_physical_nodes: Option<u64>,
    shuffle: bool,
    shuffle_algo: String,
    shuffle_seed: u64,
    shuffle_block_size: u64,
    epoch: u64,
    sample_in_epoch: u64,
    choose: Vec<u64>,
    proportion: Vec<f64>,
}

impl PlanArguments {
    /// Returns the order, each stream's part of the epoch, and the position where the epoch starts.
    pub(crate) fn resolve(&self) -> Result<(OrderConfig, EpochShares, Resume), Error> {
        let order = OrderConfig {
            shuffle: self.shuffle,
            shuffle_algo: self.shuffle_algo.parse()?,
            shuffle_seed: self.shuffle_seed,
            shuffle_block_size: Some(self.shuffle_block_size),
            partition_algo: self.partition_algo.parse()?,
            num_canonical_nodes: Some(self.num_canonical_nodes),
            batch_size: self.batch_size,
            sampling_method: self.sampling_method.parse()?,
            sampling_granularity: self.sampling_granularity,
            batching_method: self.batching_method.parse()?,
            ..OrderConfig::default()
        };
        let shares = EpochShares {
            choose: self.choose.clone(),
            proportion: self.proportion.clone(),
            epoch_size: self.choose.iter().sum(),
        };
        let start = Resume {
            epoch: self.epoch,
            sample_in_epoch: self.sample_in_epoch,
            num_canonical_nodes: self.num_canonical_nodes,
            shuffle_seed: self.shuffle_seed,
            initial_physical_nodes: self.initial_physical_nodes,
        };
        Ok((order, shares, start))
    }

    /// Returns the ranks and workers that share the samples.
    pub(crate) fn world(&self) -> World {
        shape_of(self.world)
    }

    fn plan(&self, sizes: &[Vec<u64>]) -> Result<EpochPlan, Error> {
        let (order, shares, start) = self.resolve()?;
        let shape = DataSetShape::new(sizes)?;
        Ok(EpochPlan::of_shares(&shape, &order, shares, self.world(), self.epoch, Some(&start))?)
    }
}

fn shape_of((nodes, ranks_per_node, workers_per_rank): (u32, u32, u32)) -> World {
    World { nodes, ranks_per_node, workers_per_rank }
}

/// Returns int64 memory that numpy can use without a copy and may write to.
fn array<'py, T: Copy>(py: Python<'py>, items: &[T], number: impl Fn(T) -> i64) -> PyResult<Bound<'py, PyByteArray>> {
    PyByteArray::new_with(py, 8 * items.len(), |bytes| {
        for (place, &item) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(items) {
            *place = number(item).to_ne_bytes();
        }
        Ok(())
    })
}

/// Issues warnings that concern the user as Python warnings, the rest as log lines, like the reference.
pub(crate) fn warn(py: Python<'_>, warnings: &[OrderWarning]) -> PyResult<()> {
    for warning in warnings {
        let text = warning.to_string();
        match warning {
            OrderWarning::FewSamplesForNodes { .. }
            | OrderWarning::FewSamplesForRanks { .. }
            | OrderWarning::BlockSmallerThanShard => {
                PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(text)?, 3)?;
            }
            _ => log::warn!("{text}"),
        }
    }
    crate::logging::deliver(py);
    Ok(())
}
