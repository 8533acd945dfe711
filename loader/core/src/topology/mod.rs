//! NUMA nodes, CPUs and memory that this process may use.
//!
//! [`Topology::detect`] reads the machine once, at start. Every default of a number of threads comes from here:
//! [`cpu_count`] for a process, [`Topology::threads_default`] and [`Topology::fetch_threads_default`] for one of
//! several ranks. The parts:
//!
//! * `cpu_set`: a set of CPU numbers and the kernel's text form of it ("0-3,8");
//! * `nodes`: NUMA nodes and their CPUs, by hwloc, else by sysfs, else one node with everything;
//! * `cgroup`: CPU quota and memory limit of the control groups above this process, version 1 and 2;
//! * `limits`: how many bytes the process may take, the smallest of all limits;
//! * [`affinity`]: reading and setting the calling thread's CPUs;
//! * `device`: the node that a PCI device (a GPU) is attached to.
//!
//! Every reader of a file takes the root of the file system as an argument, so tests provide their own machine.

pub mod affinity;
mod cgroup;
mod cpu_set;
mod device;
mod limits;
mod nodes;

pub use cpu_set::CpuSet;
pub use nodes::Node;

use crate::error::Result;
use std::path::{Path, PathBuf};

/// Fewest usable CPUs for which threads are bound to nodes. With fewer, the scheduler does better than a fixed
/// placement.
const PIN_CPUS_MIN: usize = 4;

/// Number of CPUs this process may use: affinity and cpuset, capped by the cgroup's CPU quota; at least 1. Defaults of
/// thread counts outside a loader come from here; a loader divides the same number by the ranks of its machine.
pub fn cpu_count() -> usize {
    let usable = affinity::current().map_or(1, |cpus| cpus.len());
    capped(usable, cgroup::Groups::of_this_process(Path::new("/")).quota_cpus()).max(1)
}

/// The machine as this process may use it.
#[derive(Clone, Debug)]
pub struct Topology {
    nodes: Vec<Node>,
    usable: CpuSet,
    quota_cpus: Option<f64>,
    memory_limit_bytes: u64,
    root: PathBuf,
}

impl Topology {
    /// Reads the machine. A limit that cannot be read counts as no limit, and nodes that cannot be read as one node.
    ///
    /// # Errors
    ///
    /// When the CPUs of the calling thread cannot be read.
    pub fn detect() -> Result<Self> {
        let root = Path::new("/");
        let usable = affinity::current()?;
        let groups = cgroup::Groups::of_this_process(root);
        Ok(Self {
            nodes: nodes::detect(root, &usable),
            usable,
            quota_cpus: groups.quota_cpus(),
            memory_limit_bytes: limits::memory_limit_bytes(root, &groups),
            root: root.to_owned(),
        })
    }

    /// The NUMA nodes that have at least one usable CPU, by ascending number; never empty.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The CPUs that affinity and cpuset allow.
    pub fn cpus_usable(&self) -> &CpuSet {
        &self.usable
    }

    /// The cgroup's CPU quota in CPUs (2.5 is two and a half), if there is one.
    pub fn quota_cpus(&self) -> Option<f64> {
        self.quota_cpus
    }

    /// Default of `threads`: the CPUs of this process, divided by the ranks on this machine; at least 1.
    pub fn threads_default(&self, local_world_size: usize) -> usize {
        threads_default(capped(self.usable.len(), self.quota_cpus), local_world_size)
    }

    /// Default of `fetch_threads`: one per 4 CPUs of this rank, at least 1. TLS fills one CPU at about 1.4 GiB/s.
    pub fn fetch_threads_default(&self, local_world_size: usize) -> usize {
        (self.threads_default(local_world_size) / 4).max(1)
    }

    /// The smallest limit on memory, in bytes.
    pub fn memory_limit_bytes(&self) -> u64 {
        self.memory_limit_bytes
    }

    /// The CPUs that a thread working for `node` is bound to: the node's part of the usable set. `None` if binding
    /// would bring no gain: on one node, or with fewer than 4 usable CPUs.
    pub fn pin_set(&self, node: usize) -> Option<CpuSet> {
        if self.nodes.len() < 2 || self.usable.len() < PIN_CPUS_MIN {
            return None;
        }
        self.nodes.get(node).map(|n| n.cpus.clone())
    }

    /// Spreads the threads of all `ranks` on this machine, `threads` each, over the nodes in proportion to their CPUs.
    /// Returns the node's index for each thread of `rank`. Neighbouring ranks have neighbouring threads, starting
    /// at the first node, so that ranks of a single thread use all nodes too.
    pub fn spread(&self, threads: usize, rank: usize, ranks: usize) -> Vec<usize> {
        let total: usize = self.nodes.iter().map(|n| n.cpus.len()).sum();
        let all = threads * ranks.max(1);
        let first = rank.min(ranks.saturating_sub(1)) * threads;
        let mut cpus = 0;
        let mut nodes_of_threads = Vec::with_capacity(threads);
        for (i, node) in self.nodes.iter().enumerate() {
            cpus += node.cpus.len();
            // The bound of the last node is `all` itself, so every thread gets a node.
            let bound = (all * cpus).div_ceil(total.max(1)).saturating_sub(first);
            while nodes_of_threads.len() < bound.min(threads) {
                nodes_of_threads.push(i);
            }
        }
        nodes_of_threads
    }

    /// The index in [`nodes`](Self::nodes) of the node that `cpu` belongs to, if this process may use it.
    pub fn node_of_cpu(&self, cpu: u32) -> Option<usize> {
        self.nodes.iter().position(|n| n.cpus.contains(cpu))
    }

    /// The index in [`nodes`](Self::nodes) of the node that the PCI device `bus_id` ("0000:3b:00.0", any case) is
    /// attached to; `None` if it is unknown or the node has no usable CPU.
    pub fn node_of_device(&self, bus_id: &str) -> Option<usize> {
        let number = device::node_number(&self.root, bus_id)?;
        self.nodes.iter().position(|n| n.number == number)
    }

    /// A machine for tests, without limits. Its nodes, numbered from 0, have these CPUs.
    ///
    /// # Panics
    ///
    /// When an entry is not a list of CPUs such as "0-3,8".
    pub fn synthetic(cpus_by_node: &[&str]) -> Self {
        let node = |(number, cpus): (usize, &&str)| Node {
            number: number as u32,
            cpus: CpuSet::parse(cpus).expect("a list of CPUs"),
            memory_bytes: None,
        };
        let nodes: Vec<Node> = cpus_by_node.iter().enumerate().map(node).collect();
        Self {
            usable: nodes.iter().flat_map(|n| n.cpus.iter()).collect(),
            nodes,
            quota_cpus: None,
            memory_limit_bytes: 1 << 30,
            root: PathBuf::from("/"),
        }
    }
}

/// `usable` CPUs under a CPU quota.
fn capped(usable: usize, quota_cpus: Option<f64>) -> usize {
    match quota_cpus {
        // A quota of 2.5 CPUs keeps 3 threads busy for most of the time.
        Some(quota) if quota.is_finite() && quota > 0.0 => usable.min(quota.ceil() as usize),
        _ => usable,
    }
}

fn threads_default(cpus: usize, local_world_size: usize) -> usize {
    (cpus / local_world_size.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_detected() {
        let topology = Topology::detect().unwrap();
        assert!(!topology.nodes().is_empty());
        assert!(!topology.cpus_usable().is_empty());
        assert!(topology.threads_default(1) >= topology.threads_default(1_000));
        assert_eq!(topology.threads_default(1_000_000), 1);
        assert_eq!(topology.threads_default(1), cpu_count());
        assert!(topology.memory_limit_bytes() > 0);
    }

    /// Set this variable on a machine with known nodes, such as an emulated one.
    #[test]
    fn the_nodes_are_those_in_the_environment_variable() {
        let Ok(expected) = std::env::var("FOREBAY_TEST_NODES") else {
            eprintln!("skipped: FOREBAY_TEST_NODES (such as 0-1;2-3) is not set");
            return;
        };
        let topology = Topology::detect().unwrap();
        let nodes: Vec<String> = topology.nodes().iter().map(|n| n.cpus.to_string()).collect();
        assert_eq!(nodes.join(";"), expected);
        for source in [nodes::from_hwloc(), nodes::from_sysfs(Path::new("/"))] {
            let found = nodes::within(source.unwrap(), topology.cpus_usable()).unwrap();
            assert_eq!(found.iter().map(|n| n.cpus.to_string()).collect::<Vec<_>>(), nodes);
        }
        for (i, node) in topology.nodes().iter().enumerate() {
            let pinned = topology.pin_set(i);
            assert_eq!(pinned.is_some(), topology.nodes().len() > 1 && topology.cpus_usable().len() >= PIN_CPUS_MIN);
            let cpus = node.cpus.clone();
            let inside = std::thread::spawn(move || {
                affinity::pin_current_thread(&cpus).unwrap();
                affinity::current().unwrap()
            });
            assert_eq!(inside.join().unwrap(), node.cpus);
        }
    }

    #[test]
    fn the_quota_caps_threads_and_ranks_share_them() {
        let threads = |usable, quota_cpus, ranks| threads_default(capped(usable, quota_cpus), ranks);
        assert_eq!(threads(16, None, 1), 16);
        assert_eq!(threads(16, Some(2.5), 1), 3);
        assert_eq!(threads(16, Some(f64::INFINITY), 1), 16);
        assert_eq!(threads(16, None, 4), 4);
        assert_eq!(threads(2, None, 0), 2);
        assert_eq!(threads(2, Some(0.5), 8), 1);
    }

    #[test]
    fn threads_are_bound_to_nodes_only_if_that_brings_a_gain() {
        let two = Topology::synthetic(&["0-7", "8-15"]);
        assert_eq!(two.pin_set(1).unwrap().to_string(), "8-15");
        assert_eq!(two.pin_set(2), None, "there is no third node");
        assert_eq!(Topology::synthetic(&["0-15"]).pin_set(0), None, "one node");
        assert_eq!(Topology::synthetic(&["0", "1"]).pin_set(0), None, "two CPUs");
    }

    #[test]
    fn threads_spread_in_proportion_to_the_nodes_cpus() {
        assert_eq!(Topology::synthetic(&["0-7", "8-15"]).spread(4, 0, 1), [0, 0, 1, 1]);
        assert_eq!(Topology::synthetic(&["0-11", "12-15"]).spread(4, 0, 1), [0, 0, 0, 1]);
        assert_eq!(Topology::synthetic(&["0-3"]).spread(3, 0, 1), [0, 0, 0]);
        assert_eq!(Topology::synthetic(&["0-3", "4-7", "8-11"]).spread(1, 0, 1), [0]);
    }

    #[test]
    fn ranks_of_one_machine_spread_over_its_nodes_together() {
        let all = |topology: &Topology, threads, ranks| -> Vec<Vec<usize>> {
            (0..ranks).map(|rank| topology.spread(threads, rank, ranks)).collect()
        };
        let two = Topology::synthetic(&["0-3", "4-7"]);
        assert_eq!(all(&two, 1, 8).concat(), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(all(&two, 3, 2), [[0, 0, 0], [1, 1, 1]]);
        assert_eq!(all(&two, 2, 3), [[0, 0], [0, 1], [1, 1]]);
        assert_eq!(all(&Topology::synthetic(&["0-5", "6-7"]), 1, 4).concat(), [0, 0, 0, 1]);
        assert_eq!(all(&Topology::synthetic(&["0-1", "2-3", "4-5"]), 5, 7).concat().len(), 35);
        assert_eq!(two.spread(2, 9, 2), [1, 1], "a rank out of range counts as the last");
    }
}
