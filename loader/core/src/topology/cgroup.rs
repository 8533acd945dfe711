//! The control groups above this process: CPU quota and memory limit.
//!
//! A limit on any ancestor applies, so every level up to the mount is read and the smallest limit counts. In a
//! container the path in `/proc/self/cgroup` may be the host's and not exist below the mount; the mount itself is then
//! the container's own group.

use std::path::{Path, PathBuf};

/// Most levels of nesting that are read. Deeper ones do not occur, and a wrong file must not cost time.
const DEPTH_MAX: usize = 64;

/// Folders of groups to read, innermost first, for both controllers.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    cpu: Vec<PathBuf>,
    memory: Vec<PathBuf>,
}

impl Groups {
    /// Reads the groups of the calling process from the files under `root`; none if there are no such files.
    pub(super) fn of_this_process(root: &Path) -> Self {
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
        // On a hybrid machine a controller is in one of the two versions only; files that are absent set no limit.
        let of_both = |controller| {
            [Some(controller), None].iter().flat_map(|version| levels(root, &mounts, &groups, *version)).collect()
        };
        Self { cpu: of_both("cpu"), memory: of_both("memory") }
    }

    /// The smallest quota on the way up, in CPUs.
    pub(super) fn quota_cpus(&self) -> Option<f64> {
        self.cpu.iter().filter_map(|folder| quota(folder)).reduce(f64::min)
    }

    /// The smallest memory limit on the way up, in bytes.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        let limits = self.memory.iter().flat_map(|folder| {
            ["memory.max", "memory.high", "memory.limit_in_bytes"].map(|name| number(&folder.join(name)))
        });
        // Version 1 writes "no limit" as a number near 2^63.
        limits.flatten().filter(|bytes| *bytes < 1 << 60).min()
    }
}

/// Reads the quota of one group: `cpu.max` is "QUOTA PERIOD" or "max PERIOD", version 1 has a file for each and -1 for
/// none.
fn quota(folder: &Path) -> Option<f64> {
    let (quota, period) = match std::fs::read_to_string(folder.join("cpu.max")) {
        Ok(text) => {
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.parse::<u64>().ok()?, period.trim().parse::<u64>().ok()?)
        }
        Err(_) => (number(&folder.join("cpu.cfs_quota_us"))?, number(&folder.join("cpu.cfs_period_us"))?),
    };
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The folders of one controller (`None`: version 2), innermost first.
fn levels(root: &Path, mounts: &str, groups: &str, controller: Option<&str>) -> Vec<PathBuf> {
    let Some((mounted, at)) = mount(mounts, controller) else { return Vec::new() };
    let top = root.join(at.trim_start_matches('/'));
    let path = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (names, path) = rest.split_once(':')?;
        let fits = match controller {
            None => names.is_empty(),
            Some(name) => names.split(',').any(|n| n == name),
        };
        fits.then_some(path)
    });
    let path = path.unwrap_or("/");
    // The mount may show a part of the hierarchy only: its root is cut off the group's path.
    let below = match path.strip_prefix(mounted.trim_end_matches('/')) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_matches('/'),
        _ => "",
    };
    if Path::new(below).components().any(|c| !matches!(c, std::path::Component::Normal(_))) {
        return vec![top];
    }
    let inner = top.join(below);
    let start = if inner.is_dir() { inner } else { top.clone() };
    start.ancestors().take(DEPTH_MAX).take_while(|folder| folder.starts_with(&top)).map(Path::to_owned).collect()
}

/// The root and the mount point of a controller's hierarchy, out of mountinfo:
/// "36 35 0:30 ROOT MOUNTPOINT OPTIONS [TAGS] - TYPE SOURCE SUPEROPTIONS".
fn mount<'a>(mounts: &'a str, controller: Option<&str>) -> Option<(&'a str, &'a str)> {
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, at) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1).unwrap_or_default());
        let fits = match controller {
            None => kind == "cgroup2",
            Some(name) => kind == "cgroup" && options.split(',').any(|o| o == name),
        };
        fits.then_some((root, at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine in a folder: files by path.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    const V2: &str = "29 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_smallest_limit_of_all_levels_applies() {
        let root = machine(&[
            ("proc/self/cgroup", "0::/job.slice/rank0\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/job.slice/cpu.max", "250000 100000\n"),
            ("sys/fs/cgroup/job.slice/memory.max", "8589934592\n"),
            ("sys/fs/cgroup/job.slice/rank0/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/job.slice/rank0/memory.max", "max\n"),
        ]);
        let groups = Groups::of_this_process(root.path());
        assert_eq!(groups.quota_cpus(), Some(2.5));
        assert_eq!(groups.memory_bytes(), Some(8 << 30));
    }

    #[test]
    fn a_container_that_shows_the_hosts_path_is_read_at_its_mount() {
        let root = machine(&[
            ("proc/self/cgroup", "0::/docker/0123\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/cpu.max", "max 100000\n"),
        ]);
        let groups = Groups::of_this_process(root.path());
        assert_eq!((groups.memory_bytes(), groups.quota_cpus()), (Some(1 << 30), None));
    }

    #[test]
    fn version_1_keeps_each_controller_in_its_own_hierarchy() {
        let root = machine(&[
            ("proc/self/cgroup", "5:memory:/docker/0123\n4:cpu,cpuacct:/docker/0123\n"),
            (
                "proc/self/mountinfo",
                "30 25 0:1 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                 31 25 0:2 /docker/0123 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ]);
        let groups = Groups::of_this_process(root.path());
        assert_eq!((groups.memory_bytes(), groups.quota_cpus()), (Some(2 << 30), Some(1.5)));
    }

    #[test]
    fn version_1_has_numbers_for_no_limit() {
        let root = machine(&[
            ("proc/self/cgroup", "5:memory:/\n4:cpu:/\n"),
            (
                "proc/self/mountinfo",
                "30 25 0:1 / /m ro - cgroup cgroup rw,memory\n31 25 0:2 / /c ro - cgroup cgroup rw,cpu\n",
            ),
            ("m/memory.limit_in_bytes", "9223372036854771712\n"),
            ("c/cpu.cfs_quota_us", "-1\n"),
            ("c/cpu.cfs_period_us", "100000\n"),
        ]);
        let groups = Groups::of_this_process(root.path());
        assert_eq!((groups.memory_bytes(), groups.quota_cpus()), (None, None));
    }

    #[test]
    fn a_path_that_leaves_the_mount_is_not_followed() {
        let root = machine(&[
            ("proc/self/cgroup", "0::/../../etc\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/memory.max", "4096\n"),
        ]);
        assert_eq!(Groups::of_this_process(root.path()).memory_bytes(), Some(4096));
    }

    #[test]
    fn without_files_there_is_no_limit() {
        let root = machine(&[]);
        let groups = Groups::of_this_process(root.path());
        assert_eq!((groups.memory_bytes(), groups.quota_cpus()), (None, None));
    }
}
