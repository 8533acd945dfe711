//! The CPUs of the calling thread.

use super::CpuSet;
use crate::error::{Error, ErrorKind, Result};
use rustix::thread::CpuSet as RawSet;

/// The CPUs the calling thread may run on: the affinity mask, which the kernel keeps within the cpuset.
///
/// # Errors
///
/// When neither the system call nor `/proc/self/status` works.
pub fn current() -> Result<CpuSet> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(raw) => Ok((0..RawSet::MAX_CPU as u32).filter(|cpu| raw.is_set(*cpu as usize)).collect()),
        // EINVAL: the machine has more CPUs than the call's fixed mask; the status file has no such bound.
        Err(errno) => from_status().ok_or_else(|| {
            Error::from_io(errno.into(), "the CPUs of this process cannot be read: sched_getaffinity is refused")
        }),
    }
}

/// Reads the CPUs from `/proc/self/status`.
fn from_status() -> Option<CpuSet> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    CpuSet::parse(list).filter(|set| !set.is_empty())
}

/// Binds the calling thread to `cpus`.
///
/// # Errors
///
/// [`ErrorKind::Config`] when no CPU of the set may be used by this process; [`ErrorKind::Permission`] if a sandbox
/// refuses the call. The caller continues unbound, since placement affects only speed.
pub fn pin_current_thread(cpus: &CpuSet) -> Result<()> {
    let mut raw = RawSet::new();
    for cpu in cpus.iter().filter(|cpu| (*cpu as usize) < RawSet::MAX_CPU) {
        raw.set(cpu as usize);
    }
    rustix::thread::sched_setaffinity(None, &raw).map_err(|errno| {
        let kind = match errno {
            // EINVAL: the mask has no CPU that exists and that the cpuset allows.
            rustix::io::Errno::INVAL => ErrorKind::Config,
            rustix::io::Errno::PERM | rustix::io::Errno::NOSYS | rustix::io::Errno::ACCESS => ErrorKind::Permission,
            _ => ErrorKind::Io,
        };
        Error::from_io(errno.into(), "a thread cannot be bound to its CPUs").of_kind(kind).with("cpus", cpus)
    })
}

/// Binds the calling thread to `cpus`, if there are any. A refusal affects only speed; `note` gets a sentence for the
/// statistics.
pub fn pin_thread_or_note(cpus: Option<&CpuSet>, note: impl FnOnce(String)) {
    if let Some(Err(e)) = cpus.map(pin_current_thread) {
        note(format!("threads run on any CPU: {e}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_cannot_be_bound_continues_with_a_note() {
        let before = current().unwrap();
        let mut notes = Vec::new();
        pin_thread_or_note(None, |why| notes.push(why));
        assert!(notes.is_empty());
        pin_thread_or_note(Some(&CpuSet::parse("1022").unwrap()), |why| notes.push(why));
        assert!(notes[0].contains("cpus 1022"), "{notes:?}");
        assert_eq!(current().unwrap(), before);
    }

    #[test]
    fn a_thread_can_be_bound_to_one_of_its_cpus() {
        let before = current().unwrap();
        assert_eq!(from_status().as_ref(), Some(&before), "both sources agree");
        let one: CpuSet = before.iter().take(1).collect();
        let inside = std::thread::spawn(move || {
            pin_current_thread(&one).unwrap();
            (one, current().unwrap())
        });
        let (asked, got) = inside.join().unwrap();
        assert_eq!(asked, got);
        assert_eq!(current().unwrap(), before, "all threads keep theirs");
    }

    #[test]
    fn cpus_that_do_not_exist_are_an_error_of_the_configuration() {
        let e = pin_current_thread(&CpuSet::parse("1022").unwrap()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert!(e.to_string().contains("cpus 1022"), "{e}");
    }
}
