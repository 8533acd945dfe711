//! Placement of threads and batches on a machine with several NUMA nodes: `tests/suite/bytes/two_nodes.sh` boots one.

use super::*;
use forebay_loader::config::WorldConfig;
use forebay_loader::topology::CpuSet;
use std::fs::{read_dir, read_to_string};

/// The CPUs of each node, if the environment lists them.
fn nodes() -> Option<Vec<CpuSet>> {
    let Ok(nodes) = std::env::var("FOREBAY_TEST_NODES") else {
        eprintln!("skipped: FOREBAY_TEST_NODES (such as 0-1;2-3) is not set");
        return None;
    };
    Some(nodes.split(';').map(|cpus| CpuSet::parse(cpus).expect("a list of CPUs")).collect())
}

/// CPUs of each of the process's decode and read threads.
fn crew() -> Vec<(String, CpuSet)> {
    let tasks = read_dir("/proc/self/task").expect("threads").map(|task| task.expect("a thread").path());
    let crew = tasks.filter_map(|task| {
        let name = read_to_string(task.join("comm")).ok()?.trim().to_owned();
        let status = read_to_string(task.join("status")).ok()?;
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        let cpus = CpuSet::parse(cpus.trim()).expect("a list of CPUs");
        (name.starts_with("fb-decode") || name.starts_with("fb-read")).then_some((name, cpus))
    });
    crew.collect()
}

/// The node of the pages around `address`.
fn node_of(address: usize) -> usize {
    let maps = read_to_string("/proc/self/numa_maps").expect("a kernel with NUMA");
    let start = |line: &str| usize::from_str_radix(line.split(' ').next()?, 16).ok();
    let mapping = maps.lines().rfind(|line| start(line).is_some_and(|start| start <= address)).expect("a mapping");
    let pages = mapping.split(' ').filter_map(|word| word.strip_prefix('N')?.split_once('='));
    let nodes: Vec<usize> = pages.map(|(node, _)| node.parse().expect("a number")).collect();
    assert_eq!(nodes.len(), 1, "{mapping}");
    nodes[0]
}

/// A loader in the middle of an epoch, and its first batch.
fn started(local_rank: u32, local_world_size: u32, directory: &Path) -> (Loader, Batch) {
    let world = WorldConfig { rank: local_rank, world_size: local_world_size, local_rank, local_world_size };
    let config = LoaderConfig { world, threads: None, ..config(stream(Some(directory), None)) };
    let loader = Loader::new(config).expect("a loader");
    loader.start_epoch().expect("an epoch");
    let Next::Batch(batch) = loader.next().expect("a batch or the end") else { panic!("an epoch without batches") };
    (loader, batch)
}

#[test]
fn each_rank_of_a_machine_works_on_its_own_node() {
    let Some(nodes) = nodes() else { return };
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 20_000, None);
    for (number, node) in nodes.iter().enumerate() {
        let (loader, batch) = started(number as u32, nodes.len() as u32, dir.path());
        let crew = crew();
        assert!(crew.iter().any(|(name, _)| name.starts_with("fb-decode")), "{crew:?}");
        for (name, cpus) in &crew {
            assert!(cpus.iter().all(|cpu| node.contains(cpu)), "{name} of rank {number} may run on {cpus}");
        }
        let Some(Output::Tensor(tensor)) = batch.get("tokens") else { panic!("no tokens") };
        assert_eq!(node_of(tensor.host().unwrap().as_ptr().addr()), number, "the batch of rank {number}");
        drop(loader);
    }
}

#[test]
fn a_single_rank_has_workers_on_every_node() {
    let Some(nodes) = nodes() else { return };
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 20_000, None);
    let (_loader, _batch) = started(0, 1, dir.path());
    let crew = crew();
    let of = |node: &CpuSet, (_, cpus): &&(String, CpuSet)| cpus.iter().all(|cpu| node.contains(cpu));
    for node in &nodes {
        let here: Vec<_> = crew.iter().filter(|thread| of(node, thread)).collect();
        assert!(here.iter().any(|(name, _)| name.starts_with("fb-decode")), "no decode thread on {node}: {crew:?}");
    }
    assert!(crew.iter().all(|thread| nodes.iter().any(|node| of(node, &thread))), "between the nodes: {crew:?}");
}
