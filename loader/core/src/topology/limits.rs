//! Limit of the process's memory.

use super::cgroup::Groups;
use rustix::process::{Resource, getrlimit};
use std::path::Path;

/// Limit where none is known: every training machine has as much.
const UNKNOWN_BYTES: u64 = 1 << 30;

/// Returns the smallest limit of this process's memory, in bytes: of the cgroups above it, RLIMIT_AS, and the kernel's
/// estimate of memory available without swapping, from the file system at `root`.
pub(super) fn memory_limit_bytes(root: &Path, groups: &Groups) -> u64 {
    let meminfo = std::fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    smallest([groups.memory_bytes(), getrlimit(Resource::As).current, available_bytes(&meminfo)])
}

fn smallest(limits: [Option<u64>; 3]) -> u64 {
    limits.into_iter().flatten().min().unwrap_or(UNKNOWN_BYTES)
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
        assert_eq!(smallest([Some(3), None, Some(2)]), 2);
        assert_eq!(smallest([None, Some(1), Some(2)]), 1);
        assert_eq!(smallest([None; 3]), 1 << 30);
    }

    #[test]
    fn available_memory_is_read_in_bytes_and_invalid_values_are_ignored() {
        assert_eq!(available_bytes("MemTotal: 1 kB\nMemAvailable:   7 kB\n"), Some(7 * 1024));
        assert_eq!(available_bytes("MemAvailable: 99999999999999999999 kB"), None);
        assert_eq!(available_bytes(&format!("MemAvailable: {} kB", u64::MAX)), None);
    }
}
