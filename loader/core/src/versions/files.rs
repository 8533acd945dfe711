//! Versions of files of this machine.
//!
//! A replaced file has a new inode, and a modified one a new time or length. The inode is left out where a file
//! gets a new number without a change: the number belongs to the file in memory and is forgotten with it.

use crate::sync::{AtomicU64, Ordering};
use rustix::fs::{Stat, StatFs};
use std::fs::Metadata;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Facts of a file. Its version is made of them.
#[derive(Clone, Copy, Debug)]
pub struct FileFacts {
    device: u64,
    inode: u64,
    modified_s: i64,
    modified_ns: i64,
    bytes: u64,
}

impl From<&Metadata> for FileFacts {
    fn from(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            modified_s: found.mtime(),
            modified_ns: found.mtime_nsec(),
            bytes: found.len(),
        }
    }
}

impl From<&Stat> for FileFacts {
    fn from(found: &Stat) -> Self {
        Self {
            device: found.st_dev,
            inode: found.st_ino,
            modified_s: found.st_mtime,
            modified_ns: found.st_mtime_nsec as i64,
            bytes: u64::try_from(found.st_size).unwrap_or(0),
        }
    }
}

impl FileFacts {
    /// Returns the version of the file that was opened as `file`.
    pub fn version_of(self, file: impl AsFd) -> String {
        self.version(has_stable_inodes(self.device, || rustix::fs::fstatfs(&file).map(number_of)))
    }

    /// Returns the version of the file at `path`.
    pub fn version_at(self, path: &Path) -> String {
        self.version(has_stable_inodes(self.device, || rustix::fs::statfs(path).map(number_of)))
    }

    /// Versions with and without the inode have different numbers of parts, so they are never compared.
    pub(super) fn version(self, has_stable_inode: bool) -> String {
        let Self { inode, modified_s, modified_ns, bytes, .. } = self;
        let content = format!("{modified_s}-{modified_ns}-{bytes}");
        if has_stable_inode { format!("{inode}-{content}") } else { content }
    }
}

/// Most devices with a remembered file system.
const DEVICES_MAX: usize = 64;

/// File systems of devices: the device plus one, and a bit that is set if its inodes are stable. A query is a request
/// to the server on some file systems. A lock would not be free in a process that was forked while it was held.
static DEVICES: [AtomicU64; DEVICES_MAX] = [const { AtomicU64::new(0) }; DEVICES_MAX];

/// Returns true if a file of `device` keeps its inode. `query` is called once for a device, but for those that share an
/// entry of the table.
fn has_stable_inodes(device: u64, query: impl Fn() -> rustix::io::Result<u32>) -> bool {
    let entry = &DEVICES[(device % DEVICES_MAX as u64) as usize];
    let (known, key) = (entry.load(Ordering::Relaxed), device.wrapping_add(1) << 1);
    if known & !1 == key {
        return known & 1 == 1;
    }
    // Without an answer the inode is not relied on.
    let is_stable = rustix::io::retry_on_intr(&query).is_ok_and(is_stable);
    entry.store(key | u64::from(is_stable), Ordering::Relaxed);
    is_stable
}

fn number_of(found: StatFs) -> u32 {
    found.f_type as u32
}

/// Returns true if the file systems with this number, which `statfs` returns, keep the inode of a file while it is
/// mounted.
fn is_stable(file_system: u32) -> bool {
    match file_system {
        // FUSE, also virtiofs: a daemon such as s3fs or gcsfuse gives a file a number at each look-up after it was
        // forgotten.
        0x6573_5546 => false,
        // SMB 1 to 3: with `noserverino`, and for servers that send no numbers, the client makes them up.
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => false,
        // 9p: the number is a hash of the server's path, which servers such as QEMU may give to a second file.
        0x0102_1997 => false,
        // FAT, exFAT: they store no numbers, so the kernel counts the files that it looks up.
        0x4d44 | 0x2011_bab0 => false,
        // Shared folders of VirtualBox and of VMware: likewise.
        0x786f_4256 | 0xbacb_acbc => false,
        // AFS, Ceph, GPFS, Lustre and NFS have the server's numbers; the file systems of disks store them.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versions::{Found, Versions};
    use std::cell::Cell;

    fn facts(inode: u64, modified_s: i64, modified_ns: i64, bytes: u64) -> FileFacts {
        FileFacts { device: 1, inode, modified_s, modified_ns, bytes }
    }

    fn is_changed(versions: &Versions, text: &str) -> bool {
        versions
            .is_changed("k", Found { text, is_time: false, modified_s: None, answered_s: None, is_of_content: true })
    }

    #[test]
    fn a_file_is_a_new_one_after_each_kind_of_change() {
        let versions = Versions::default();
        versions.expect("k", &facts(1, 2, 3, 4).version(true));
        assert!(!is_changed(&versions, &facts(1, 2, 3, 4).version(true)));
        for other in [facts(2, 2, 3, 4), facts(1, 3, 3, 4), facts(1, 2, 4, 4), facts(1, 2, 3, 5)] {
            assert!(is_changed(&versions, &other.version(true)), "{other:?}");
        }
    }

    #[test]
    fn a_file_with_a_new_inode_is_the_same_where_inodes_change() {
        let versions = Versions::default();
        versions.expect("k", &facts(1, 2, 3, 4).version(false));
        assert!(!is_changed(&versions, &facts(9, 2, 3, 4).version(false)));
        for other in [facts(1, 3, 3, 4), facts(1, 2, 4, 4), facts(1, 2, 3, 5)] {
            assert!(is_changed(&versions, &other.version(false)), "{other:?}");
        }
        assert!(!is_changed(&versions, &facts(1, 2, 3, 4).version(true)), "a process that learned otherwise");
    }

    #[test]
    fn the_file_systems_that_make_inodes_up_are_known() {
        for made_up in [0x6573_5546, 0xff53_4d42, 0xfe53_4d42, 0x517b, 0x0102_1997, 0x4d44, 0x2011_bab0, 0x786f_4256] {
            assert!(!is_stable(made_up), "{made_up:#x}");
        }
        // ext4, XFS, Btrfs, tmpfs, overlayfs, NFS, Lustre, Ceph, GPFS, ZFS.
        for kept in [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x0102_1994,
            0x794c_7630,
            0x6969,
            0x0bd0_0bd0,
            0x00c3_6400,
            0x4750_4653,
            0x2fc1_2fc1,
        ] {
            assert!(is_stable(kept), "{kept:#x}");
        }
    }

    #[test]
    fn a_device_is_queried_once_and_without_an_answer_its_inodes_do_not_count() {
        let (device, other) = (u64::from(u32::MAX) * 64, u64::from(u32::MAX) * 64 + 1);
        let queries = Cell::new(0);
        let query = || {
            queries.set(queries.get() + 1);
            Ok(0xef53)
        };
        assert!(has_stable_inodes(device, query) && has_stable_inodes(device, query));
        assert_eq!(queries.get(), 1);
        let failed = || Err(rustix::io::Errno::NOSYS);
        assert!(!has_stable_inodes(other, failed) && !has_stable_inodes(other, query));
        assert_eq!(queries.get(), 1);
    }

    #[test]
    fn a_path_and_its_open_file_have_one_version() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let found = file.as_file().metadata().unwrap();
        let stat = rustix::fs::fstat(file.as_file()).unwrap();
        let version = FileFacts::from(&found).version_at(file.path());
        assert_eq!(version, FileFacts::from(&stat).version_of(file.as_file()));
    }
}
