//! Pages made in the background, so that neither the start nor the first batch waits for all of them.

use super::slab::Piece;
use crate::sync::{self, Arc, AtomicBool, JoinHandle, Ordering};
use crate::topology::affinity;

/// Made per call: at the 0.4 GiB/s of a slow virtual machine's first touch this is 10 ms, which bounds how long a drop
/// waits, and how long the process's memory map is held against others.
const STEP_BYTES: usize = 4 << 20;

/// The lowest priority.
const NICE: i32 = 19;

/// The thread that populates a slab, lowest address first, the order in which runs are lent out.
#[derive(Debug)]
pub(super) struct Populate {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pid: u32,
}

impl Populate {
    pub(super) fn start(pieces: Vec<Piece>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = sync::spawn("fb-populate", move || {
            // Only the CPU that nobody else wants: on a small machine the first batch is made meanwhile. Whoever needs a
            // page before its turn makes it by touching it. A refusal costs nothing but this politeness.
            let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
            for piece in &pieces {
                // Where the kernel refused to prefer a node, pages come from the node of the thread that touches them
                // first, which is this one.
                if let Some(node) = piece.node() {
                    let _ = affinity::pin_current_thread(&node.cpus);
                }
                while !piece.is_populated() {
                    if stopped.load(Ordering::Relaxed) || !piece.populate_next(STEP_BYTES) {
                        return;
                    }
                }
            }
        })?;
        Ok(Self { stop, thread: Some(thread), pid: std::process::id() })
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Populate {
    fn drop(&mut self) {
        self.stop();
        // A forked child has no such thread to wait for.
        if let Some(thread) = self.thread.take().filter(|_| self.pid == std::process::id()) {
            let _ = thread.join();
        }
    }
}
