//! Threads and memory of the sample plane, by NUMA node.
//!
//! Each node with decode threads has a group of workers with its own read slots, in proportion to its threads. There is
//! a single pool of batch slots. It is spread over these nodes, or placed on the device's node if there is a device;
//! the threads of a rank that shares the machine are on that node too. If placement brings no gain (one node, few
//! CPUs), there is one group, and pages come from the node of the thread that touches them first.

use crate::config::LoaderConfig;
use crate::delivery::Delivery;
use crate::error::Result;
use crate::memory::{BLOCK_BYTES, BatchPool, BatchPoolConfig, ReadPool, ReadPoolConfig, default_bytes, split};
use crate::pipeline::NumaWorkers;
use crate::topology::{CpuSet, Node, Topology};
use std::collections::BTreeMap;

/// Most bytes of read slots: four times a queue of 64 samples of 1 MiB.
const READ_BYTES_MAX: u64 = 256 << 20;

/// Pools and workers, made at the start of the first epoch and kept for all epochs.
#[derive(Clone)]
pub(super) struct Pools {
    pub(super) batches: BatchPool,
    pub(super) numa_workers: Vec<NumaWorkers>,
}

impl Pools {
    /// Takes the memory for batches of `batch_bytes` bytes, `prefetch` of them prefetched.
    ///
    /// # Errors
    ///
    /// `Config` when `memory` does not hold three batches, `Full` when the system refuses it, and the errors of the
    /// delivery.
    pub(super) fn new(
        config: &LoaderConfig,
        prefetch: u32,
        topology: &Topology,
        target: &dyn Delivery,
        batch_bytes: usize,
    ) -> Result<Self> {
        let memory = memory_bytes(config, topology, batch_bytes)?;
        let split = split(memory, batch_bytes as u64, batch_slots(prefetch))?;
        let near = target.node(topology).filter(|_| is_placed(topology));
        let placements = placements(topology, config, near);
        let nodes = match near {
            Some(node) => vec![topology.nodes()[node].clone()],
            None => placements.iter().filter_map(|placement| placement.node.clone()).collect(),
        };
        let slots =
            BatchPoolConfig { bytes: split.batch_bytes as usize, slot_bytes: batch_bytes, nodes, populate: true };
        let batches = BatchPool::new(&slots, target.registrar())?;
        let threads: Vec<usize> = placements.iter().map(|placement| placement.decode_cpus.len()).collect();
        let shares = shares(split.read_bytes.min(READ_BYTES_MAX) as usize, &threads);
        let workers = |(placement, bytes): (Placement, usize)| {
            let reads = ReadPoolConfig {
                bytes,
                node: placement.node,
                // Population begins with the first lease: an epoch from the page cache takes none.
                populate: true,
                ..ReadPoolConfig::default()
            };
            let reads = ReadPool::new(&reads, target.registrar())?;
            Ok(NumaWorkers { reads, read_cpus: placement.cpus, decode_cpus: placement.decode_cpus })
        };
        let numa_workers = placements.into_iter().zip(shares).map(workers).collect::<Result<_>>()?;
        Ok(Self { batches, numa_workers })
    }

    /// Number of decode threads.
    pub(super) fn threads(&self) -> usize {
        self.numa_workers.iter().map(|group| group.decode_cpus.len()).sum()
    }
}

/// Resolved `memory` for slots of `batch_bytes` bytes.
fn memory_bytes(config: &LoaderConfig, topology: &Topology, batch_bytes: usize) -> Result<u64> {
    let local = config.world.local_world_size as usize;
    match config.engine.memory {
        Some(bytes) => Ok(bytes),
        None => default_bytes(topology.memory_limit_bytes(), local, batch_bytes as u64),
    }
}

/// Number of threads that work on samples.
pub(super) fn threads_of(config: &LoaderConfig, topology: &Topology) -> usize {
    let default = || topology.threads_default(config.world.local_world_size as usize);
    config.threads.map_or_else(default, |threads| threads as usize)
}

/// Number of batch slots: the batches in flight and the consumer's batch.
fn batch_slots(prefetch: u32) -> u64 {
    u64::from(prefetch) + 2
}

/// Largest slot size at which `memory` holds all batch slots; at least `batch_bytes`.
pub(super) fn slot_bytes_max(config: &LoaderConfig, prefetch: u32, topology: &Topology, batch_bytes: usize) -> u64 {
    // An invalid `memory` is reported when the memory is taken.
    let Ok(memory) = memory_bytes(config, topology, batch_bytes) else { return batch_bytes as u64 };
    let each = memory / 4 * 3 / batch_slots(prefetch);
    (each / BLOCK_BYTES as u64 * BLOCK_BYTES as u64).max(batch_bytes as u64)
}

/// Placement of a group of workers.
struct Placement {
    /// `None`: any node.
    node: Option<Node>,
    /// The CPUs of the node.
    cpus: Option<CpuSet>,
    /// CPUs of each decode thread.
    decode_cpus: Vec<Option<CpuSet>>,
}

/// True if threads and memory are placed on nodes.
fn is_placed(topology: &Topology) -> bool {
    topology.pin_set(0).is_some()
}

/// Decode threads by node, in one group without placement. `near` is the device's node: a rank that shares the machine
/// and has all threads on one node has them on that node.
fn placements(topology: &Topology, config: &LoaderConfig, near: Option<usize>) -> Vec<Placement> {
    let (rank, local) = (config.world.local_rank as usize, config.world.local_world_size as usize);
    let threads = threads_of(config, topology);
    let cpus: Vec<u32> = topology.cpus_usable().iter().collect();
    let bound = |(i, placement): (usize, usize)| {
        if config.engine.pin_threads {
            let first = rank * threads;
            let cpu = cpus[(first + i) % cpus.len()];
            (topology.node_of_cpu(cpu).unwrap_or(placement), Some([cpu].into_iter().collect()))
        } else {
            (placement, topology.pin_set(placement))
        }
    };
    let mut spread = topology.spread(threads, rank, local);
    if let Some(near) = near.filter(|_| local > 1 && spread.iter().all(|node| *node == spread[0])) {
        spread.fill(near);
    }
    let mut placements = BTreeMap::<usize, Placement>::new();
    for (node, cpus) in spread.into_iter().enumerate().map(bound) {
        let node = if is_placed(topology) { node } else { 0 };
        let placement = placements.entry(node).or_insert_with(|| Placement {
            node: is_placed(topology).then(|| topology.nodes()[node].clone()),
            cpus: topology.pin_set(node),
            decode_cpus: Vec::new(),
        });
        placement.decode_cpus.push(cpus);
    }
    placements.into_values().collect()
}

/// Divides `bytes` in proportion to `weights`, in whole blocks except for the last share.
fn shares(bytes: usize, weights: &[usize]) -> Vec<usize> {
    let total: usize = weights.iter().sum();
    let (mut weight, mut start) = (0, 0);
    let share = |w: &usize| {
        weight += w;
        let end = if weight == total { bytes } else { bytes / total * weight / BLOCK_BYTES * BLOCK_BYTES };
        let share = end - start;
        start = end;
        share
    };
    weights.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EngineConfig;
    use crate::delivery::{Device, HostDelivery, TensorMemory};
    use crate::memory::{BatchMemory, Piece, Registrar};
    use crate::sync::Arc;

    const MIB: usize = 1 << 20;

    fn config(threads: u32) -> LoaderConfig {
        let engine = EngineConfig { memory: Some(64 << 20), ..EngineConfig::default() };
        LoaderConfig { threads: Some(threads), engine, ..LoaderConfig::default() }
    }

    fn pools(topology: &Topology, config: &LoaderConfig, target: &dyn Delivery) -> Pools {
        Pools::new(config, 2, topology, target, MIB).expect("pools")
    }

    /// The node of every mapping of the batch pool, with its bytes.
    fn batch_nodes(pools: &Pools) -> Vec<(Option<u32>, usize)> {
        pools.batches.pieces().iter().map(|p| (p.node().map(|n| n.number), p.len())).collect()
    }

    fn read_nodes(pools: &Pools) -> Vec<(Option<u32>, usize)> {
        let pieces = pools.numa_workers.iter().map(|group| group.reads.pieces());
        pieces.map(|p| (p[0].node().map(|n| n.number), p.iter().map(Piece::len).sum())).collect()
    }

    fn cpus(sets: &[Option<CpuSet>]) -> Vec<String> {
        sets.iter().map(|set| set.as_ref().map_or_else(|| "any".to_owned(), CpuSet::to_string)).collect()
    }

    #[test]
    fn each_node_has_workers_and_read_slots_in_proportion_to_its_threads() {
        let pools = pools(&Topology::synthetic(&["0-5", "6-7"]), &config(4), &HostDelivery);
        let bound: Vec<_> = pools.numa_workers.iter().map(|group| cpus(&group.decode_cpus)).collect();
        assert_eq!(bound, [vec!["0-5"; 3], vec!["6-7"; 1]]);
        let readers: Vec<_> = pools.numa_workers.iter().map(|group| group.read_cpus.clone()).collect();
        assert_eq!(cpus(&readers), ["0-5", "6-7"]);
        assert_eq!(read_nodes(&pools), [(Some(0), 45 * MIB), (Some(1), 15 * MIB)]);
        assert_eq!(batch_nodes(&pools), [(Some(0), 2 * MIB), (Some(1), 2 * MIB)]);
    }

    #[test]
    fn one_node_is_one_group_with_memory_placed_by_first_touch() {
        for (nodes, why) in [(&["0-7"][..], "one node"), (&["0", "1-2"][..], "three CPUs")] {
            let pools = pools(&Topology::synthetic(nodes), &config(3), &HostDelivery);
            assert_eq!(read_nodes(&pools), [(None, 60 * MIB)], "{why}");
            assert_eq!(batch_nodes(&pools), [(None, 4 * MIB)], "{why}");
            assert_eq!(
                (cpus(&pools.numa_workers[0].decode_cpus), &pools.numa_workers[0].read_cpus),
                (vec!["any".into(); 3], &None)
            );
        }
    }

    #[test]
    fn ranks_of_one_thread_use_all_nodes() {
        let topology = Topology::synthetic(&["0-3", "4-7"]);
        let node = |local_rank| {
            let mut config = config(1);
            (config.world.local_rank, config.world.local_world_size) = (local_rank, 8);
            let pools = pools(&topology, &config, &HostDelivery);
            let bound: Vec<_> = pools.numa_workers.iter().flat_map(|group| cpus(&group.decode_cpus)).collect();
            (bound, batch_nodes(&pools))
        };
        assert_eq!(node(3), (vec!["0-3".to_owned()], vec![(Some(0), 4 * MIB)]));
        assert_eq!(node(4), (vec!["4-7".to_owned()], vec![(Some(1), 4 * MIB)]));
    }

    #[test]
    fn a_thread_bound_to_one_cpu_belongs_to_that_cpus_node() {
        let mut config = config(3);
        config.engine.pin_threads = true;
        let topology = Topology::synthetic(&["0-3", "4-7"]);
        assert_eq!(read_nodes(&pools(&topology, &config, &HostDelivery)), [(Some(0), 60 * MIB)]);
        (config.world.local_rank, config.world.local_world_size) = (1, 2);
        let second = pools(&topology, &config, &HostDelivery);
        let bound: Vec<_> = second.numa_workers.iter().map(|group| cpus(&group.decode_cpus)).collect();
        assert_eq!(bound, [vec!["3"], vec!["4", "5"]]);
        assert_eq!(read_nodes(&second), [(Some(0), 20 * MIB), (Some(1), 40 * MIB)]);
    }

    #[test]
    fn shares_add_up_for_any_weights() {
        assert_eq!(shares(100_000, &[1, 1, 1]), [32_768, 32_768, 34_464]);
        assert_eq!(shares(100_001, &[7]), [100_001]);
    }

    /// A device on node 1.
    #[derive(Debug)]
    struct OnNodeOne;

    impl Delivery for OnNodeOne {
        fn device(&self) -> Device {
            Device::Cpu
        }

        fn registrar(&self) -> Option<&dyn Registrar> {
            None
        }

        fn node(&self, topology: &Topology) -> Option<usize> {
            topology.nodes().iter().position(|n| n.number == 1)
        }

        fn deliver(&self, filled: BatchMemory, _bytes: usize) -> Result<Arc<dyn TensorMemory>> {
            Ok(Arc::new(filled))
        }
    }

    #[test]
    fn batches_for_a_device_are_filled_on_the_devices_node() {
        let two = Topology::synthetic(&["0-3", "4-7"]);
        assert_eq!(batch_nodes(&pools(&two, &config(4), &OnNodeOne)), [(Some(1), 4 * MIB)]);
        // The threads of a rank that shares the machine are there too, unless they are bound to CPUs or use all nodes.
        let threads = |local, pin_threads| {
            let mut config = config(2);
            config.engine.pin_threads = pin_threads;
            config.world.local_world_size = local;
            let pools = pools(&two, &config, &OnNodeOne);
            pools.numa_workers.iter().flat_map(|group| cpus(&group.decode_cpus)).collect::<Vec<_>>()
        };
        assert_eq!(threads(4, false), ["4-7", "4-7"]);
        assert_eq!(threads(1, false), ["0-3", "4-7"]);
        assert_eq!(threads(4, true), ["0", "1"]);
        let few = Topology::synthetic(&["0", "1"]);
        assert_eq!(batch_nodes(&pools(&few, &config(2), &OnNodeOne)), [(None, 4 * MIB)]);
    }
}
