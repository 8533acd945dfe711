//! NUMA nodes and their CPUs.

use super::CpuSet;
use std::path::Path;

/// One NUMA node with the CPUs of it that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number of the node; numbers may have gaps.
    pub number: u32,
    /// The node's usable CPUs; never empty.
    pub cpus: CpuSet,
    /// The node's memory in bytes, if known.
    pub memory_bytes: Option<u64>,
}

/// Returns the nodes with usable CPUs, from hwloc or else from sysfs. A source with nodes that do not contain all
/// usable CPUs is not used. Without a source, all CPUs are one node.
pub(super) fn detect(root: &Path, usable: &CpuSet) -> Vec<Node> {
    #[cfg(feature = "hwloc")]
    if let Some(nodes) = from_hwloc().and_then(|nodes| within(nodes, usable)) {
        return nodes;
    }
    let nodes = from_sysfs(root).and_then(|nodes| within(nodes, usable));
    nodes.unwrap_or_else(|| vec![Node { number: 0, cpus: usable.clone(), memory_bytes: None }])
}

/// Restricts `nodes` to the usable CPUs; `None` unless each of these belongs to exactly one node.
pub(super) fn within(nodes: Vec<Node>, usable: &CpuSet) -> Option<Vec<Node>> {
    let mut nodes: Vec<Node> = nodes
        .into_iter()
        .map(|n| Node { cpus: n.cpus.intersection(usable), ..n })
        .filter(|n| !n.cpus.is_empty())
        .collect();
    nodes.sort_by_key(|n| n.number);
    let claimed: usize = nodes.iter().map(|n| n.cpus.len()).sum();
    let all: CpuSet = nodes.iter().flat_map(|n| n.cpus.iter()).collect();
    (claimed == usable.len() && all == *usable).then_some(nodes)
}

/// Reads the nodes of the running machine from hwloc, which also reads its variables HWLOC_SYNTHETIC and HWLOC_XMLFILE.
#[cfg(feature = "hwloc")]
pub(super) fn from_hwloc() -> Option<Vec<Node>> {
    use hwlocality::object::types::ObjectType;
    let topology = hwlocality::Topology::new().ok()?;
    let node = |object: &hwlocality::object::TopologyObject| {
        let set = object.cpuset()?;
        // An infinite set is not a set of CPUs.
        set.last_set()?;
        Some(Node {
            number: u32::try_from(object.os_index()?).ok()?,
            cpus: set.iter_set().map(|i| usize::from(i) as u32).collect(),
            memory_bytes: Some(object.total_memory()).filter(|bytes| *bytes > 0),
        })
    };
    topology.objects_with_type(ObjectType::NUMANode).map(node).collect::<Option<Vec<_>>>().filter(|n| !n.is_empty())
}

/// Reads the nodes from the kernel's files under `root`.
pub(super) fn from_sysfs(root: &Path) -> Option<Vec<Node>> {
    let folder = root.join("sys/devices/system/node");
    let online = CpuSet::parse(&std::fs::read_to_string(folder.join("online")).ok()?)?;
    let node = |number: u32| {
        let folder = folder.join(format!("node{number}"));
        let cpus = CpuSet::parse(&std::fs::read_to_string(folder.join("cpulist")).ok()?)?;
        let memory = std::fs::read_to_string(folder.join("meminfo")).ok();
        Some(Node { number, cpus, memory_bytes: memory.as_deref().and_then(total_bytes) })
    };
    online.iter().map(node).collect::<Option<Vec<_>>>().filter(|n| !n.is_empty())
}

/// "Node 0 MemTotal:       24684152 kB" in bytes.
fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.contains("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().rev().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_nodes() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/devices/system/node");
        for (number, cpus) in [(0, "0-3\n"), (1, "4-7\n"), (2, "\n")] {
            let node = folder.join(format!("node{number}"));
            std::fs::create_dir_all(&node).unwrap();
            std::fs::write(node.join("cpulist"), cpus).unwrap();
            std::fs::write(node.join("meminfo"), "Node 0 MemTotal:  1024 kB\nNode 0 MemFree: 1 kB\n").unwrap();
        }
        std::fs::write(folder.join("online"), "0-2\n").unwrap();
        root
    }

    #[test]
    fn nodes_from_sysfs_without_cpus_are_omitted() {
        let root = two_nodes();
        let nodes = within(from_sysfs(root.path()).unwrap(), &CpuSet::parse("2-6").unwrap()).unwrap();
        let cpus: Vec<String> = nodes.iter().map(|n| n.cpus.to_string()).collect();
        assert_eq!(cpus, ["2-3", "4-6"]);
        assert_eq!(nodes[1].memory_bytes, Some(1 << 20));
    }

    #[test]
    fn nodes_that_do_not_cover_the_usable_cpus_are_not_used() {
        let root = two_nodes();
        assert_eq!(within(from_sysfs(root.path()).unwrap(), &CpuSet::parse("6-9").unwrap()), None);
    }

    #[test]
    fn without_any_source_everything_is_one_node() {
        let root = tempfile::tempdir().unwrap();
        // CPUs that this machine's hwloc cannot know and a root without files.
        let usable = CpuSet::parse("60000-60001").unwrap();
        assert_eq!(detect(root.path(), &usable), [Node { number: 0, cpus: usable, memory_bytes: None }]);
    }

    /// hwloc reads its environment when a topology is made, so the machine with two nodes is read in a child process.
    #[cfg(feature = "hwloc")]
    #[test]
    fn hwloc_reports_the_nodes_of_a_synthetic_machine() {
        const MARK: &str = "FOREBAY_TEST_SYNTHETIC";
        if std::env::var_os(MARK).is_some() {
            let nodes = from_hwloc().unwrap();
            let cpus: Vec<String> = nodes.iter().map(|n| n.cpus.to_string()).collect();
            assert_eq!(cpus, ["0-15", "16-31"]);
            return;
        }
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "topology::nodes::tests::hwloc_reports_the_nodes_of_a_synthetic_machine", "--nocapture"])
            .env(MARK, "1")
            .env("HWLOC_SYNTHETIC", "node:2 core:8 pu:2")
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
        assert!(String::from_utf8_lossy(&child.stdout).contains("1 passed"), "the child ran this very test");
    }
}
