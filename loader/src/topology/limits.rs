//! Limits of the process's memory.

use super::cgroup::Groups;
use std::path::Path;

/// Limits of this process's memory; `None` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryLimits {
    /// The smallest cgroup limit above the process, in bytes.
    pub(super) cgroup_bytes: Option<u64>,
    /// RLIMIT_AS, in bytes.
    pub(super) address_space_bytes: Option<u64>,
    /// The kernel's estimate of memory available without swapping (MemAvailable), in bytes.
    pub(super) available_bytes: Option<u64>,
}

impl MemoryLimits {
    /// Reads the limits; `root` is the file system they are read from, RLIMIT_AS is the process's.
    pub(super) fn read(root: &Path, groups: &Groups) -> Self {
        let meminfo = std::fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
        Self {
            cgroup_bytes: groups.memory_bytes(),
            address_space_bytes: rustix::process::getrlimit(rustix::process::Resource::As).current,
            available_bytes: available_bytes(&meminfo),
        }
    }

    /// The smallest limit; 1 GiB if none is known, since every training machine has as much.
    pub(super) fn smallest_bytes(&self) -> u64 {
        let known = [self.cgroup_bytes, self.address_space_bytes, self.available_bytes];
        known.into_iter().flatten().min().unwrap_or(1 << 30)
    }
}

/// "MemAvailable:   23641000 kB" in bytes.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_counts() {
        let limits = |cgroup_bytes, address_space_bytes, available_bytes| MemoryLimits {
            cgroup_bytes,
            address_space_bytes,
            available_bytes,
        };
        assert_eq!(limits(Some(3), None, Some(2)).smallest_bytes(), 2);
        assert_eq!(limits(None, Some(1), Some(2)).smallest_bytes(), 1);
        assert_eq!(limits(None, None, None).smallest_bytes(), 1 << 30);
    }

    #[test]
    fn available_memory_is_read_in_bytes_and_invalid_values_are_ignored() {
        assert_eq!(available_bytes("MemTotal: 1 kB\nMemAvailable:   7 kB\n"), Some(7 * 1024));
        assert_eq!(available_bytes("MemAvailable: 99999999999999999999 kB"), None);
        assert_eq!(available_bytes(&format!("MemAvailable: {} kB", u64::MAX)), None);
    }
}
