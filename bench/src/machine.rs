//! Machine of a run, and the load on it.

use forebay_loader::decode::vectors::VARIABLE;
use forebay_loader::topology::affinity;
use serde::Serialize;
use std::fs;

/// Machine, for the head of a report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Model name from the kernel, and the limit of vector instructions if one is set.
    pub(crate) cpu: String,
    /// Number of CPUs that this process may use.
    pub(crate) cpus: usize,
    /// Memory of the machine, bytes.
    pub(crate) memory_bytes: u64,
    /// Kernel release.
    pub(crate) kernel: String,
    /// Load average over one minute when the run began.
    pub(crate) load: f64,
}

impl Machine {
    /// Reads `/proc`. Values that are missing there are empty.
    pub(crate) fn here() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |all: &str, key: &str| {
            let line = all.lines().find(|l| l.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory_kib = after(&text("/proc/meminfo"), "MemTotal").and_then(|v| v.split(' ').next()?.parse().ok());
        let limit = std::env::var(VARIABLE).map(|vectors| format!(" ({VARIABLE}={vectors})")).unwrap_or_default();
        Self {
            cpu: after(&text("/proc/cpuinfo"), "model name").unwrap_or_default() + &limit,
            cpus: cpus_allowed().len(),
            memory_bytes: memory_kib.unwrap_or(0u64) * 1024,
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: text("/proc/loadavg").split(' ').next().and_then(|v| v.parse().ok()).unwrap_or(0.0),
        }
    }
}

/// Returns the CPUs that this process may use, ascending.
pub(crate) fn cpus_allowed() -> Vec<usize> {
    affinity::current().map_or_else(|_| vec![0], |cpus| cpus.iter().map(|cpu| cpu as usize).collect())
}

/// Returns the CPU seconds spent on `cpus` so far by all processes: user, nice, system, interrupts and stolen time.
pub(crate) fn busy_seconds(cpus: &[usize]) -> f64 {
    // The kernel counts in ticks of 1/100 s for user space on every architecture that Linux runs on today.
    const TICKS_PER_S: f64 = 100.0;
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = |line: &str| -> u64 {
        let fields: Vec<u64> = line.split_whitespace().skip(1).map(|f| f.parse().unwrap_or(0)).collect();
        // user nice system idle iowait irq softirq steal; guest time is included in user.
        [0, 1, 2, 5, 6, 7].iter().map(|&i| fields.get(i).copied().unwrap_or(0)).sum()
    };
    let lines = cpus.iter().filter_map(|c| stat.lines().find(|l| l.split(' ').next() == Some(&format!("cpu{c}"))));
    lines.map(ticks).sum::<u64>() as f64 / TICKS_PER_S
}

/// Returns the CPU seconds of this process, all threads.
pub(crate) fn own_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_cpus_with_busy_time() {
        let cpus = cpus_allowed();
        assert!(!cpus.is_empty());
        assert_eq!(Machine::here().cpus, cpus.len());
        assert!(busy_seconds(&cpus) > 0.0);
    }
}
