//! Owned mappings of anonymous pages.
//!
//! Pages are ordinary ones: huge pages (madvise) brought no gain when measured. They take no less CPU to populate (1.2
//! s instead of 0.2 to 0.8 s for 512 MiB on a virtual machine), and reading 110 KiB samples into them costs the same
//! within 5 %.

use crate::error::{Error, ErrorKind, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ptr::NonNull;

/// Options of a mapping.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MapOptions {
    /// Not copied into forked children.
    pub dont_fork: bool,
    /// The NUMA node (kernel's number) with the preferred memory.
    pub node: Option<u32>,
}

/// Private anonymous memory, zeroed by the kernel.
///
/// Invariant: in the process that made it, `ptr .. ptr + len` is mapped readable and writable from `new` until `drop`,
/// and nothing else unmaps it.
/// The mapping itself returns no references: the code that divides it up ensures exclusive access.
#[derive(Debug)]
pub(super) struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
    pid: u32,
}

// SAFETY: a mapping belongs to the process, not to a thread, and `Mapping` gives no access to the bytes by itself.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` only returns the address and advises the kernel, which is thread-safe.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes (above 0), which the kernel rounds up to whole pages.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`] when the system refuses: RLIMIT_AS, strict overcommit, too many mappings.
    pub(super) fn new(len: usize, options: MapOptions) -> Result<Self> {
        if len == 0 {
            return Err(Error::internal("a mapping of 0 bytes was requested"));
        }
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no existing memory.
        let mapped = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let mapped = mapped.map_err(|errno| {
            let why = "the system refuses memory: lower `memory`, or raise RLIMIT_AS (ulimit -v) or vm.max_map_count";
            Error::from_io(errno.into(), why).of_kind(ErrorKind::Full).with("bytes", len)
        })?;
        let ptr =
            NonNull::new(mapped.cast()).ok_or_else(|| Error::internal("the system mapped memory at address 0"))?;
        let map = Self { ptr, len, pid: std::process::id() };
        if options.dont_fork {
            // EINVAL on a kernel without this advice: a child then has a copy that it never touches.
            let _ = map.advise(0, len, Advice::LinuxDontFork);
        }
        if let Some(node) = options.node {
            map.prefer_node(node);
        }
        Ok(map)
    }

    pub(super) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Populates the pages of `at .. at + len`; safe while threads use them. Returns false if the kernel cannot
    /// (before Linux 5.14) or refuses (out of memory): pages are then populated on first touch.
    pub(super) fn populate(&self, at: usize, len: usize) -> bool {
        loop {
            match self.advise(at, len, Advice::LinuxPopulateWrite) {
                Ok(()) => return true,
                Err(rustix::io::Errno::INTR) => {}
                // EINVAL: unknown advice; ENOMEM, EAGAIN: out of memory; EFAULT, EHWPOISON: a bad page.
                Err(_) => return false,
            }
        }
    }

    /// Returns the pages of `at .. at + len` to the system; the bytes read as zero afterwards.
    ///
    /// # Safety
    ///
    /// There are no references into the range, since its contents change.
    pub(super) unsafe fn discard(&self, at: usize, len: usize) {
        // EINVAL happens on locked pages, which then stay until they are unmapped.
        let _ = self.advise(at, len, Advice::LinuxDontNeed);
    }

    fn advise(&self, at: usize, len: usize, advice: Advice) -> rustix::io::Result<()> {
        debug_assert!(at.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: `at` is within the mapping (every caller checks it against `len`).
        let start = unsafe { self.ptr.add(at) };
        // SAFETY: the range is mapped by the type's invariant. DontFork and PopulateWrite keep the contents, and for
        // DontNeed the only caller, `discard`, requires that there are no references to them.
        unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, advice) }
    }

    /// Prefers the memory of `node`. A refusal (EPERM from seccomp in many containers, ENOSYS without NUMA) is not an
    /// error: the pages then come from the node of the thread that touches them first.
    fn prefer_node(&self, node: u32) {
        const MPOL_PREFERRED: libc::c_long = 1;
        let Some(mask) = 1_u64.checked_shl(node) else { return };
        // SAFETY: the range is mapped by the type's invariant, `mask` outlives the call and has the 64 bits that the
        // call reads; a memory policy changes where pages come from, never their contents.
        unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.ptr.as_ptr(),
                self.len,
                MPOL_PREFERRED,
                &raw const mask,
                // The kernel reads one bit less than this number.
                u64::BITS as libc::c_ulong + 1,
                0_u32,
            )
        };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // In a forked child the range may be unmapped or have a different use by now.
        if self.pid != std::process::id() {
            return;
        }
        // SAFETY: the range is mapped by the type's invariant and unmapped only here; pools keep the
        // mapping alive as long as a part of it is lent out.
        let _ = unsafe { rustix::mm::munmap(self.ptr.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_memory_is_zeroed_and_can_be_populated() {
        let map = Mapping::new(1 << 20, MapOptions { dont_fork: true, node: Some(0) }).unwrap();
        assert!(map.populate(0, 1 << 20));
        // SAFETY: mapped and populated above, and no further code has the address.
        let bytes = unsafe { std::slice::from_raw_parts(map.ptr().as_ptr(), map.len()) };
        assert!(bytes.iter().all(|b| *b == 0));
    }

    /// On one node this only shows that the preference does no harm; the test also runs on a machine with two nodes.
    #[test]
    fn pages_are_on_the_preferred_node() {
        const MPOL_F_NODE: libc::c_ulong = 1;
        const MPOL_F_ADDR: libc::c_ulong = 2;
        for node in crate::topology::Topology::detect().unwrap().nodes() {
            let map = Mapping::new(1 << 20, MapOptions { dont_fork: true, node: Some(node.number) }).unwrap();
            assert!(map.populate(0, map.len()));
            for at in [0, map.len() - 1] {
                let mut found: libc::c_int = -1;
                // SAFETY: `at` is within the mapping.
                let address = unsafe { map.ptr().add(at) };
                // SAFETY: with these flags the call writes one int and reads nothing else.
                let result = unsafe {
                    libc::syscall(
                        libc::SYS_get_mempolicy,
                        &raw mut found,
                        std::ptr::null_mut::<libc::c_ulong>(),
                        0 as libc::c_ulong,
                        address.as_ptr(),
                        MPOL_F_NODE | MPOL_F_ADDR,
                    )
                };
                if result != 0 {
                    eprintln!("skipped: get_mempolicy: {}", std::io::Error::last_os_error());
                    return;
                }
                assert_eq!(found as u32, node.number);
            }
        }
    }

    #[test]
    fn refused_memory_is_an_error_that_names_the_remedy() {
        let e = Mapping::new(1 << 62, MapOptions::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Full);
        assert!(e.to_string().contains("lower `memory`"), "{e}");
        assert_eq!(Mapping::new(0, MapOptions::default()).unwrap_err().kind(), ErrorKind::Internal);
    }

    #[test]
    fn a_node_that_does_not_exist_is_ignored() {
        assert!(Mapping::new(4096, MapOptions { dont_fork: false, node: Some(63) }).is_ok());
        assert!(Mapping::new(4096, MapOptions { dont_fork: false, node: Some(64) }).is_ok());
    }
}
