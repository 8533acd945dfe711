//! Tests of the ring alone: systems without io_uring, and fixed buffers.

use super::*;
use crate::ErrorKind;
use crate::io::{Engine, IoConfig, ReadRequest, Reader, open, reader};
use crate::memory::{Piece, ReadPool, ReadPoolConfig};
use crate::stats::Stats;
use std::sync::Arc;
use std::time::Duration;

fn pool(bytes: usize, piece_bytes_max: usize) -> ReadPool {
    ReadPool::new(&ReadPoolConfig { bytes, piece_bytes_max, ..Default::default() }, None).unwrap()
}

/// A file of counted bytes.
fn file() -> (tempfile::NamedTempFile, Arc<crate::io::ShardFile>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), (0..500_000_u32).map(|i| (i % 251) as u8).collect::<Vec<_>>()).unwrap();
    let shard = Arc::new(open(file.path()).unwrap());
    (file, shard)
}

fn read_one(reader: &mut dyn Reader, pool: &ReadPool, file: &Arc<crate::io::ShardFile>, offset: u64) {
    let into = pool.lease(10_000).unwrap();
    reader.submit(ReadRequest { file: file.clone(), offset, into, token: 0 }).unwrap();
    let mut done = Vec::new();
    assert_eq!(reader.wait(&mut done, Duration::from_secs(60)).unwrap(), 1);
    let lease = done.pop().unwrap().result.unwrap();
    assert!(lease.iter().enumerate().all(|(i, b)| *b == ((offset + i as u64) % 251) as u8));
}

/// Lets every later `io_uring_setup` of the calling thread alone fail with `errno`, as with container profiles (EPERM)
/// and gVisor (ENOSYS).
fn refuse_io_uring(errno: libc::c_int) {
    const fn line(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    let mut program = [
        // The number of the call is at offset 0 of the filter's input.
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_io_uring_setup as u32, 0, 1),
        line(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0),
        line(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: takes numbers only.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(result, 0);
    // SAFETY: the filter and its program outlive the call, which copies them.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn without_io_uring_samples_are_read_with_pread_and_a_note_has_the_reason() {
    for (errno, words) in [(libc::ENOSYS, "gVisor"), (libc::EPERM, "seccomp profile")] {
        let sandboxed = std::thread::spawn(move || {
            refuse_io_uring(errno);
            let e = probe::attempt().unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.to_string().contains(words), "{e}");

            let ((_keep, file), pool, stats) = (file(), pool(1 << 20, 1 << 20), Arc::new(Stats::default()));
            for page_cache in [true, false] {
                let config = IoConfig { page_cache, ..Default::default() };
                let mut reader = reader(&config, &pool, &stats).unwrap();
                assert_eq!(reader.name(), "pread");
                read_one(&mut *reader, &pool, &file, 12_345);
            }
            let notes = stats.snapshot().notes;
            assert_eq!(notes.len(), 1, "one note, once: {notes:?}");
            assert!(notes[0].starts_with("samples are read with pread: io_uring is"), "{notes:?}");

            let by_name = IoConfig { engine: Engine::Uring, ..Default::default() };
            let e = reader(&by_name, &pool, &stats).err().unwrap();
            assert_eq!(e.kind(), ErrorKind::Unsupported);
        });
        sandboxed.join().unwrap();
    }
}

#[test]
fn pieces_become_fixed_buffers_once_they_are_populated() {
    if let Err(reason) = probe() {
        eprintln!("skipped: {reason}");
        return;
    }
    let ((_keep, file), pool, stats) = (file(), pool(4 << 20, 1 << 20), Arc::new(Stats::default()));
    drop(pool.lease(1).unwrap());
    while !pool.pieces().iter().all(Piece::is_populated) {
        std::thread::yield_now();
    }
    let config = IoConfig { page_cache: false, ..Default::default() };
    let mut reader = UringReader::new(&config, &pool, &stats).unwrap();
    for i in 0..20 {
        read_one(&mut reader, &pool, &file, i * 1_001);
    }
    match &stats.snapshot().notes[..] {
        [] => assert_eq!(reader.ring.registered, 4),
        notes => eprintln!("skipped: {notes:?}"),
    }
}

#[test]
fn without_the_right_to_lock_memory_reads_are_unregistered_and_a_note_names_the_limit() {
    if let Err(reason) = probe() {
        eprintln!("skipped: {reason}");
        return;
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let Some(limit) = limit.filter(|limit| *limit <= 64 << 20) else {
        eprintln!("skipped: RLIMIT_MEMLOCK is {limit:?}");
        return;
    };
    let ordinary = std::thread::spawn(move || {
        // Capabilities belong to a thread: this one alone becomes an ordinary user.
        rustix::thread::set_capabilities(
            None,
            rustix::thread::CapabilitySets {
                effective: rustix::thread::CapabilitySet::empty(),
                permitted: rustix::thread::CapabilitySet::empty(),
                inheritable: rustix::thread::CapabilitySet::empty(),
            },
        )
        .unwrap();
        let bytes = limit as usize + (16 << 20);
        let ((_keep, file), pool, stats) = (file(), pool(bytes, bytes), Arc::new(Stats::default()));
        drop(pool.lease(1).unwrap());
        while !pool.pieces().iter().all(Piece::is_populated) {
            std::thread::yield_now();
        }
        let config = IoConfig { page_cache: false, ..Default::default() };
        let mut reader = UringReader::new(&config, &pool, &stats).unwrap();
        for i in 0..4 {
            read_one(&mut reader, &pool, &file, i * 1_001);
        }
        assert_eq!(reader.ring.registered, 0);
        let notes = stats.snapshot().notes;
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("RLIMIT_MEMLOCK"), "{notes:?}");
    });
    ordinary.join().unwrap();
}
