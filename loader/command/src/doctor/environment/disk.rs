//! The disk of the shards, and shared memory.

use crate::doctor::finding::{ENVIRONMENT, Findings, Problem, Severity, Subject};
use indicatif::BinaryBytes;
use rustix::fs::{Mode, OFlags, open, statfs, statvfs};
use std::path::{Path, PathBuf};

/// Free bytes below which a disk is full.
const FREE_MIN: u64 = 1 << 30;

/// Bytes of shared memory of a container that was not configured.
const SHARED_DEFAULT: u64 = 64 << 20;

/// Kinds of file systems by the magic number of their superblocks, with a remark about slow or remote ones.
const FILE_SYSTEMS: &[(i64, &str, &str)] = &[
    (0xef53, "ext4", ""),
    (0x5846_5342, "xfs", ""),
    (0x9123_683e, "btrfs", ""),
    (0x0102_1994, "tmpfs", "its files take memory"),
    (0x794c_7630, "overlay", "it is the layer of a container: mount a disk of the machine for the shards"),
    (0x6969, "nfs", "it is on the network: put the shards on a local disk"),
    (0xff53_4d42, "cifs", "it is on the network: put the shards on a local disk"),
    (0x6573_5546, "fuse", "it is a file system of a program: put the shards on a local disk"),
    (0x0bd0_0bd0, "lustre", "it is on the network: put the shards on a local disk"),
];

pub(super) fn check(local: Option<&Path>, findings: &mut Findings) {
    let folder = local.map_or_else(forebay_loader::cache_root, Path::to_owned);
    let Some(existing) = folder.ancestors().find(|path| path.is_dir()).map(Path::to_owned) else { return };
    of_folder(&folder, &existing, findings);
    let shared = PathBuf::from("/dev/shm");
    let Ok(found) = statvfs(&shared) else { return };
    let bytes = found.f_blocks.saturating_mul(found.f_frsize);
    findings.fact("shared memory", BinaryBytes(bytes).to_string());
    if bytes <= SHARED_DEFAULT {
        let advice = "the ranks of a node share memory there: start the container with --shm-size or --ipc=host";
        let problem = Problem::new(Severity::Note, ENVIRONMENT, "/dev/shm is small", advice);
        findings.add(problem, Subject::Named(shared.display().to_string()), BinaryBytes(bytes).to_string());
    }
}

/// Describes the disk of the folder of shards. `existing` is the first of the folders above that exists.
fn of_folder(folder: &Path, existing: &Path, findings: &mut Findings) {
    let Ok(space) = statvfs(existing) else { return };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let magic = statfs(existing).map_or(0, |found| found.f_type & 0xffff_ffff);
    let known = FILE_SYSTEMS.iter().find(|(number, ..)| *number == magic);
    let kind = known.map_or("unknown", |(_, kind, _)| kind);
    let direct = if has_direct_reads(existing) { "O_DIRECT" } else { "no O_DIRECT" };
    findings.fact("cache", format!("{}: {kind}, {direct}, {} free", folder.display(), BinaryBytes(free)));
    let name = || Subject::Named(folder.display().to_string());
    if free < FREE_MIN {
        let advice = "free some space, set `cache_limit`, or choose a folder with `local`";
        let problem = Problem::new(Severity::Warning, ENVIRONMENT, "the disk of the shards is almost full", advice);
        findings.add(problem, name(), format!("{} free", BinaryBytes(free)));
    }
    if let Some((_, kind, remark)) = known.filter(|(_, _, remark)| !remark.is_empty()) {
        let message = format!("the folder of the shards is on {kind}");
        findings.add(Problem::new(Severity::Note, ENVIRONMENT, message, *remark), name(), "");
    }
}

/// True if files of the folder can be read past the page cache.
fn has_direct_reads(folder: &Path) -> bool {
    open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::DIRECT, Mode::RUSR | Mode::WUSR).is_ok()
}
