//! Background population of pages, so that neither the start nor the first batch waits for all of them.

use super::piece::Piece;
use crate::sync::{self, Arc, AtomicBool, JoinHandle, Ordering};
use crate::topology::affinity;

/// Bytes populated per call: 10 ms at the 0.4 GiB/s of a slow virtual machine. This bounds how long a drop waits and
/// how long the process's memory map is locked.
const STEP_BYTES: usize = 4 << 20;

/// Lowest priority.
const NICE: i32 = 19;

/// Thread that populates a slab, lowest address first, which is the order in which runs are granted.
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
            // The lowest priority leaves the CPUs of a small machine to the first batch; a page that is needed early is
            // populated by its first touch. A refusal is harmless.
            let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
            for piece in &pieces {
                // If the kernel refused to prefer a node, pages come from the node of the thread that touches them
                // first, which is this thread.
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
