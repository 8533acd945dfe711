//! Facts about the machine for Python.

use crate::enter;
use forebay_gpu::{Libraries, device_count};
use forebay_loader::topology::{self, Topology};
use forebay_loader::{decode, io};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Number of CPUs this process may use, at least 1.
#[pyfunction]
pub(crate) fn cpu_count() -> usize {
    topology::cpu_count()
}

/// Returns the facilities of this machine for a loader as JSON. `io_uring` is null if it can be used, else the reason.
#[pyfunction]
pub(crate) fn describe_machine(py: Python<'_>) -> PyResult<String> {
    enter::enter(py, || {
        let topology = Topology::detect()?;
        decode::vectors::check_environment()?;
        let nodes = topology.nodes().iter().map(|node| {
            serde_json::json!({"number": node.number, "cpus": node.cpus.to_string(), "memory_bytes": node.memory_bytes})
        });
        let cuda = match device_count(Libraries::default().driver.as_deref()) {
            Ok(devices) => format!("{devices} devices"),
            Err(error) => error.to_string(),
        };
        Ok(serde_json::json!({
            "cpus": topology::cpu_count(),
            "quota_cpus": topology.quota_cpus(),
            "numa_nodes": nodes.collect::<Vec<_>>(),
            "memory_bytes": topology.memory_limit_bytes(),
            "vectors": decode::vectors::name_in_use(),
            "io_uring": io::probe().err(),
            "cuda": cuda,
        })
        .to_string())
    })
}

/// Returns the bytes that a file of `length` bytes occupies on the disk of `folder`.
#[pyfunction]
pub(crate) fn bytes_on_disk(folder: PathBuf, length: u64) -> u64 {
    forebay_loader::bytes_on_disk(&folder, length)
}
