//! CPUs, memory and limits of this process.

use crate::doctor::finding::{ENVIRONMENT, Findings, Problem, Severity, Subject};
use forebay_loader::topology::{self, Topology};
use forebay_loader::{Result, decode, io};
use indicatif::BinaryBytes;
use rustix::process::{Resource, getrlimit};

/// Open files that a loader of a large data set needs: each resident shard takes up to two.
const FILES_MIN: u64 = 4096;

/// Locked memory that rings with their buffers need.
const LOCKED_MIN: u64 = 8 << 20;

pub(super) fn check(findings: &mut Findings) -> Result<()> {
    findings.fact("forebay", env!("CARGO_PKG_VERSION"));
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    findings.fact("system", format!("{} {release}", system.sysname().to_string_lossy()));
    let topology = Topology::detect()?;
    let quota = topology.quota_cpus();
    let by_quota = quota.map(|cpus| format!(", by the CPU quota of the container ({cpus})")).unwrap_or_default();
    findings.fact("CPUs", format!("{} for this process{by_quota}", topology::cpu_count()));
    let nodes = topology.nodes().iter().map(|node| format!("{}: CPUs {}", node.number, node.cpus));
    findings.fact("NUMA nodes", nodes.collect::<Vec<_>>().join("; "));
    findings.fact("memory", format!("{} for this process", BinaryBytes(topology.memory_limit_bytes())));
    decode::vectors::check_environment()?;
    findings.fact("vectors", decode::vectors::name_in_use());
    let visible = topology.cpus_usable().len();
    if let Some(quota) = quota.filter(|quota| *quota < visible as f64) {
        let message = "the container has more CPUs than its quota";
        let advice = "the loader counts the quota; other libraries may start a thread for each CPU";
        note(findings, message, advice, "CPUs", format!("{visible} CPUs, a quota of {quota}"));
    }
    rings(findings);
    limits(findings);
    Ok(())
}

fn note(findings: &mut Findings, message: &str, advice: &str, subject: &str, detail: String) {
    let problem = Problem::new(Severity::Note, ENVIRONMENT, message, advice);
    findings.add(problem, Subject::Named(subject.to_owned()), detail);
}

fn rings(findings: &mut Findings) {
    match io::probe() {
        Ok(()) => findings.fact("io_uring", "yes"),
        Err(reason) => {
            findings.fact("io_uring", "no");
            let advice =
                "reads use pread, which is slower on fast disks; allow io_uring in the container's seccomp rules";
            note(findings, "io_uring cannot be used", advice, "io_uring", reason);
        }
    }
}

fn limits(findings: &mut Findings) {
    let shown = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
    let locked = getrlimit(Resource::Memlock).current;
    findings.fact("locked memory", format!("{} bytes", shown(locked)));
    if locked.is_some_and(|bytes| bytes < LOCKED_MIN) {
        let advice =
            "pinned batches and io_uring need more: raise it with `ulimit -l`, or --ulimit memlock=-1 of the container";
        note(findings, "the limit of locked memory is low", advice, "ulimit -l", format!("{} bytes", shown(locked)));
    }
    let files = getrlimit(Resource::Nofile).current;
    findings.fact("open files", format!("{}; each resident shard takes up to two", shown(files)));
    if files.is_some_and(|files| files < FILES_MIN) {
        let advice = "a data set of many shards needs more: raise it with `ulimit -n`";
        note(findings, "the limit of open files is low", advice, "ulimit -n", shown(files));
    }
}
