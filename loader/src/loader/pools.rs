//! The sample plane's threads and memory, and the NUMA nodes they lie on.
//!
//! A crew on each node that has decode threads, with read slots of its own in proportion to them; and one pool of batch
//! slots, spread over those nodes, or all on the node that the target asks for, where the threads of one of several ranks are
//! as well. Where placing does not pay (one node, few
//! CPUs) there is one crew, and memory lies where it is touched first.

use crate::config::LoaderConfig;
use crate::delivery::Delivery;
use crate::error::Result;
use crate::memory::{BLOCK_BYTES, BatchPool, BatchPoolConfig, ReadPool, ReadPoolConfig, default_bytes, split};
use crate::pipeline::NumaWorkers;
use crate::topology::{CpuSet, Node, Topology};
use std::collections::BTreeMap;

/// Bytes of read slots at most: a queue of 64 samples of a megabyte, four times over.
const READ_BYTES_MAX: u64 = 256 << 20;

/// Made with the first epoch, kept for all.
#[derive(Clone)]
pub(super) struct Pools {
    pub(super) batches: BatchPool,
    pub(super) crews: Vec<NumaWorkers>,
}

impl Pools {
    /// Takes the memory for batches of `batch_bytes` bytes, of which `prefetch` are made ahead.
    ///
    /// # Errors
    ///
    /// `Config` when `memory` does not hold three batches, `Full` when the system refuses it, and what the target says.
    pub(super) fn new(
        config: &LoaderConfig,
        prefetch: u32,
        topology: &Topology,
        target: &dyn Delivery,
        batch_bytes: usize,
    ) -> Result<Self> {
        let memory = memory_bytes(config, topology, batch_bytes)?;
        let split = split(memory, batch_bytes as u64, slots_wanted(prefetch))?;
        let near = target.node(topology).filter(|_| is_placed(topology));
        let homes = homes(topology, config, near);
        let nodes = match near {
            Some(node) => vec![topology.nodes()[node].clone()],
            None => homes.iter().filter_map(|home| home.node.clone()).collect(),
        };
        let slots =
            BatchPoolConfig { bytes: split.batch_bytes as usize, slot_bytes: batch_bytes, nodes, populate: true };
        let batches = BatchPool::with_registrar(&slots, target.registrar())?;
        let threads: Vec<usize> = homes.iter().map(|home| home.decode_cpus.len()).collect();
        let shares = shares(split.read_bytes.min(READ_BYTES_MAX) as usize, &threads);
        let crew = |(home, bytes): (Home, usize)| {
            let reads = ReadPoolConfig {
                bytes,
                node: home.node,
                // Pages come from the first lease on: an epoch that is hot in the page cache needs none.
                populate: true,
                sample_bytes_max: usize::try_from(config.sample_bytes_max).unwrap_or(usize::MAX),
                ..ReadPoolConfig::default()
            };
            let reads = ReadPool::with_registrar(&reads, target.registrar())?;
            Ok(NumaWorkers { reads, read_cpus: home.cpus, decode_cpus: home.decode_cpus })
        };
        let crews = homes.into_iter().zip(shares).map(crew).collect::<Result<_>>()?;
        Ok(Self { batches, crews })
    }

    /// How many decode threads there are.
    pub(super) fn threads(&self) -> usize {
        self.crews.iter().map(|crew| crew.decode_cpus.len()).sum()
    }
}

/// What `memory` is for slots of `batch_bytes` bytes.
fn memory_bytes(config: &LoaderConfig, topology: &Topology, batch_bytes: usize) -> Result<u64> {
    let local = config.world.local_world_size as usize;
    match config.memory {
        Some(bytes) => Ok(bytes),
        None => default_bytes(topology.memory_limit_bytes(), local, batch_bytes as u64),
    }
}

/// The batches under way, and the consumer's.
fn slots_wanted(prefetch: u32) -> u64 {
    u64::from(prefetch) + 2
}

/// How large slots may be at most so that there are as many as with slots of `batch_bytes` bytes; no larger where there are
/// fewer than wanted anyway.
pub(super) fn slot_bytes_max(config: &LoaderConfig, prefetch: u32, topology: &Topology, batch_bytes: usize) -> u64 {
    // What is wrong with the memory shows when it is taken.
    let Ok(memory) = memory_bytes(config, topology, batch_bytes) else { return batch_bytes as u64 };
    let each = memory / 4 * 3 / slots_wanted(prefetch);
    (each / BLOCK_BYTES as u64 * BLOCK_BYTES as u64).max(batch_bytes as u64)
}

/// Where a crew works.
struct Home {
    /// `None`: anywhere.
    node: Option<Node>,
    /// The CPUs of the node.
    cpus: Option<CpuSet>,
    /// One entry for each decode thread: the CPUs that it is bound to.
    decode_cpus: Vec<Option<CpuSet>>,
}

/// Whether threads and memory are placed on nodes at all.
fn is_placed(topology: &Topology) -> bool {
    topology.pin_set(0).is_some()
}

/// The decode threads by their nodes; without placing they are all in one home. `near` is the target's node: a rank that shares the
/// machine with others and has its threads on one node anyway has them there.
fn homes(topology: &Topology, config: &LoaderConfig, near: Option<usize>) -> Vec<Home> {
    let (rank, local) = (config.world.local_rank as usize, config.world.local_world_size as usize);
    let threads = config.threads.map_or_else(|| topology.threads_default(local), |threads| threads as usize);
    let cpus: Vec<u32> = topology.cpus_usable().iter().collect();
    let bound = |(i, home): (usize, usize)| match config.pin_threads {
        true => {
            let first = rank * threads;
            let cpu = cpus[(first + i) % cpus.len()];
            (topology.node_of_cpu(cpu).unwrap_or(home), Some([cpu].into_iter().collect()))
        }
        false => (home, topology.pin_set(home)),
    };
    let mut spread = topology.spread(threads, rank, local);
    if let Some(near) = near.filter(|_| local > 1 && spread.iter().all(|node| *node == spread[0])) {
        spread.fill(near);
    }
    let mut homes = BTreeMap::<usize, Home>::new();
    for (node, cpus) in spread.into_iter().enumerate().map(bound) {
        let node = if is_placed(topology) { node } else { 0 };
        let home = homes.entry(node).or_insert_with(|| Home {
            node: is_placed(topology).then(|| topology.nodes()[node].clone()),
            cpus: topology.pin_set(node),
            decode_cpus: Vec::new(),
        });
        home.decode_cpus.push(cpus);
    }
    homes.into_values().collect()
}

/// `bytes` in proportion to `weights`, in whole blocks but for the last share; they add up to `bytes`.
fn shares(bytes: usize, weights: &[usize]) -> Vec<usize> {
    let total: usize = weights.iter().sum();
    let (mut weight, mut given) = (0, 0);
    let share = |w: &usize| {
        weight += w;
        let upto = if weight == total { bytes } else { bytes / total * weight / BLOCK_BYTES * BLOCK_BYTES };
        let share = upto - given;
        given = upto;
        share
    };
    weights.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::{Device, HostDelivery, TensorMemory};
    use crate::memory::{BatchMemory, Registrar};
    use crate::sync::Arc;

    const MIB: usize = 1 << 20;

    fn config(threads: u32) -> LoaderConfig {
        LoaderConfig { threads: Some(threads), memory: Some(64 << 20), ..LoaderConfig::default() }
    }

    fn pools(topology: &Topology, config: &LoaderConfig, target: &dyn Delivery) -> Pools {
        Pools::new(config, 2, topology, target, MIB).expect("pools")
    }

    /// The node of every mapping of the batch pool, with its bytes.
    fn batch_nodes(pools: &Pools) -> Vec<(Option<u32>, usize)> {
        pools.batches.pieces().iter().map(|p| (p.node().map(|n| n.number), p.len())).collect()
    }

    fn read_nodes(pools: &Pools) -> Vec<(Option<u32>, usize)> {
        let node = |crew: &NumaWorkers| crew.reads.pieces()[0].node().map(|n| n.number);
        pools.crews.iter().map(|crew| (node(crew), crew.reads.state().total_bytes)).collect()
    }

    fn cpus(sets: &[Option<CpuSet>]) -> Vec<String> {
        sets.iter().map(|set| set.as_ref().map_or_else(|| "any".to_owned(), CpuSet::to_string)).collect()
    }

    #[test]
    fn each_node_has_a_crew_with_read_slots_by_its_threads_and_all_add_up_to_memory() {
        let pools = pools(&Topology::made_up(&["0-5", "6-7"]), &config(4), &HostDelivery);
        let bound: Vec<_> = pools.crews.iter().map(|crew| cpus(&crew.decode_cpus)).collect();
        assert_eq!(bound, [vec!["0-5"; 3], vec!["6-7"; 1]]);
        let readers: Vec<_> = pools.crews.iter().map(|crew| crew.read_cpus.clone()).collect();
        assert_eq!(cpus(&readers), ["0-5", "6-7"]);
        assert_eq!(read_nodes(&pools), [(Some(0), 45 * MIB), (Some(1), 15 * MIB)]);
        assert_eq!(batch_nodes(&pools), [(Some(0), 2 * MIB), (Some(1), 2 * MIB)]);
    }

    #[test]
    fn one_node_is_one_crew_and_memory_lies_where_it_is_touched() {
        for (nodes, why) in [(&["0-7"][..], "one node"), (&["0", "1-2"][..], "three CPUs")] {
            let pools = pools(&Topology::made_up(nodes), &config(3), &HostDelivery);
            assert_eq!(read_nodes(&pools), [(None, 60 * MIB)], "{why}");
            assert_eq!(batch_nodes(&pools), [(None, 4 * MIB)], "{why}");
            assert_eq!((cpus(&pools.crews[0].decode_cpus), &pools.crews[0].read_cpus), (vec!["any".into(); 3], &None));
        }
    }

    #[test]
    fn ranks_of_one_thread_have_their_crews_on_all_nodes() {
        let topology = Topology::made_up(&["0-3", "4-7"]);
        let node = |local_rank| {
            let mut config = config(1);
            (config.world.local_rank, config.world.local_world_size) = (local_rank, 8);
            let pools = pools(&topology, &config, &HostDelivery);
            let bound: Vec<_> = pools.crews.iter().flat_map(|crew| cpus(&crew.decode_cpus)).collect();
            (bound, batch_nodes(&pools))
        };
        assert_eq!(node(3), (vec!["0-3".to_owned()], vec![(Some(0), 4 * MIB)]));
        assert_eq!(node(4), (vec!["4-7".to_owned()], vec![(Some(1), 4 * MIB)]));
    }

    #[test]
    fn a_thread_of_one_cpu_belongs_to_the_crew_of_that_cpu() {
        let mut config = config(3);
        config.pin_threads = true;
        let topology = Topology::made_up(&["0-3", "4-7"]);
        assert_eq!(read_nodes(&pools(&topology, &config, &HostDelivery)), [(Some(0), 60 * MIB)]);
        (config.world.local_rank, config.world.local_world_size) = (1, 2);
        let second = pools(&topology, &config, &HostDelivery);
        let bound: Vec<_> = second.crews.iter().map(|crew| cpus(&crew.decode_cpus)).collect();
        assert_eq!(bound, [vec!["3"], vec!["4", "5"]]);
        assert_eq!(read_nodes(&second), [(Some(0), 20 * MIB), (Some(1), 40 * MIB)]);
    }

    #[test]
    fn shares_add_up_whatever_the_weights() {
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
        let two = Topology::made_up(&["0-3", "4-7"]);
        assert_eq!(batch_nodes(&pools(&two, &config(4), &OnNodeOne)), [(Some(1), 4 * MIB)]);
        // So are the threads of a rank that shares the machine, unless they are wanted elsewhere or are on all nodes.
        let threads = |local, pin_threads| {
            let mut config = LoaderConfig { pin_threads, ..config(2) };
            config.world.local_world_size = local;
            let pools = pools(&two, &config, &OnNodeOne);
            pools.crews.iter().flat_map(|crew| cpus(&crew.decode_cpus)).collect::<Vec<_>>()
        };
        assert_eq!(threads(4, false), ["4-7", "4-7"]);
        assert_eq!(threads(1, false), ["0-3", "4-7"]);
        assert_eq!(threads(4, true), ["0", "1"]);
        let few = Topology::made_up(&["0", "1"]);
        assert_eq!(batch_nodes(&pools(&few, &config(2), &OnNodeOne)), [(None, 4 * MIB)]);
    }
}
