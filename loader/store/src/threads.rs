//! The fetch threads: a single-threaded runtime each, with tokio-uring where the kernel allows it.
//!
//! Every thread takes a few parts at a time from the common queue, so an object's ranges spread over all threads. A
//! part that waits for its next attempt does not count. A dispatcher takes small jobs (`get_small`, credentials), which
//! never wait for parts.

use super::config::StoreConfig;
use super::context::{StoreContext, ThreadContext};
use super::flight::{PartEnd, PartSlot};
use super::queue::Queue;
use super::transfer::{self, ObjectPart};
use crate::{Error, Result};
use crossbeam::channel::{Sender, unbounded};
use forebay_core::clock::Clock;
use forebay_core::stats::Stats;
use forebay_core::sync::{Arc, JoinHandle, Mutex, current, spawn};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use tokio::sync::{oneshot, watch};

/// Small job: becomes a future on the thread that takes it.
type Call = Box<dyn FnOnce(Rc<ThreadContext>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Longest queue of parts: 65,536 parts of 8 MiB are half a TiB.
const QUEUED_PARTS_MAX: usize = 1 << 16;

const QUEUED_CALLS_MAX: usize = 1 << 12;

/// Queues between callers and fetch threads.
pub(crate) struct FetchQueues {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) parts: Queue<ObjectPart>,
    calls: Queue<Call>,
    is_stopped: watch::Sender<bool>,
}

impl FetchQueues {
    /// Runs a small job on a fetch thread. The channel closes without a response when that thread ends.
    pub(crate) fn call<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        body: impl FnOnce(Rc<ThreadContext>) -> F + Send + 'static,
    ) -> Result<oneshot::Receiver<T>> {
        let (sender, receiver) = oneshot::channel();
        let call: Call = Box::new(move |context| {
            let work = body(context);
            Box::pin(async move {
                // Fails if the caller no longer waits.
                let _ = sender.send(work.await);
            })
        });
        self.calls.push_all(vec![call])?;
        Ok(receiver)
    }

    /// Ends every thread; queued and running fetches fail as closed.
    fn stop(&self) {
        self.parts.close();
        self.calls.close();
        self.is_stopped.send_replace(true);
    }
}

/// Owner of the fetch threads, which end when this is dropped.
pub(crate) struct FetchThreads {
    pub(crate) queues: Arc<FetchQueues>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl FetchThreads {
    /// Starts the threads that `config` asks for, and waits until each has its runtime.
    pub(crate) fn start(config: StoreConfig, stats: &Arc<Stats>, clock: Clock) -> Result<Self> {
        let count = config.fetch_threads;
        let queues = FetchQueues {
            context: Arc::new(StoreContext::new(config, clock, stats.clone())),
            parts: Queue::new(QUEUED_PARTS_MAX),
            calls: Queue::new(QUEUED_CALLS_MAX),
            is_stopped: watch::Sender::new(false),
        };
        let started = Self { queues: Arc::new(queues), threads: Mutex::default() };
        let (ready, all_ready) = unbounded();
        for index in 0..count {
            let (queues, ready) = (started.queues.clone(), ready.clone());
            match spawn(format!("fb-fetch-{index}"), move || run(queues, index, &ready)) {
                Ok(handle) => started.threads.lock().push(handle),
                // Fewer threads do the same work.
                Err(_) if index > 0 => break,
                Err(e) => return Err(Error::from_io(e, "a fetch thread cannot be started")),
            }
        }
        // A thread that panics sends nothing and drops its sender.
        drop(ready);
        let count = started.threads.lock().len();
        all_ready.iter().take(count).collect::<Result<()>>()?;
        Ok(started)
    }

    pub(crate) fn close(&self) {
        self.queues.stop();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // The last remote may be dropped in a callback on a fetch thread, which cannot wait for itself.
            if thread.thread().id() != current().id() && thread.join().is_err() {
                log::error!("a fetch thread panicked");
            }
        }
    }
}

impl Drop for FetchThreads {
    fn drop(&mut self) {
        self.close();
    }
}

/// Checks that this process may create a ring of the size that tokio-uring uses: its own start panics if it may not.
fn check_ring(config: &StoreConfig) -> std::io::Result<()> {
    if !config.io_uring {
        return Err(std::io::Error::other("turned off by the configuration"));
    }
    io_uring::IoUring::new(256).map(drop)
}

/// Runs a fetch thread until the queues are stopped. Sends to `ready` once it has its runtime, or the reason why not.
fn run(queues: Arc<FetchQueues>, index: usize, ready: &Sender<Result<()>>) {
    let config = &queues.context.config;
    if let Some(on_start) = &config.on_thread_start {
        on_start(index);
    }
    let ring = check_ring(config).and_then(|()| tokio_uring::Runtime::new(&tokio_uring::builder()));
    // The receiver no longer receives once a thread has failed.
    match ring {
        Ok(runtime) => {
            let _ = ready.send(Ok(()));
            runtime.block_on(serve(queues, index, true));
        }
        Err(why) => {
            queues.context.stats.note(format!("fetch threads run without io_uring: {why}"));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|why| Error::from_io(why, "a fetch thread cannot start its runtime"));
            let _ = ready.send(runtime.as_ref().map(drop).map_err(Error::duplicate));
            if let Ok(runtime) = runtime {
                tokio::task::LocalSet::new().block_on(&runtime, serve(queues, index, false));
            }
        }
    }
}

async fn serve(queues: Arc<FetchQueues>, index: usize, has_ring: bool) {
    let context = Rc::new(ThreadContext::new(&queues.context, index, has_ring));
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn_local(work(queues.clone(), context.clone()));
    tasks.spawn_local(dispatch(queues.clone(), context));
    // The sender lives as long as the queues.
    let _ = queues.is_stopped.subscribe().wait_for(|is_stopped| *is_stopped).await;
    // Dropping the tasks drops their parts, which fail as closed.
    tasks.shutdown().await;
}

/// Fetches parts until it is dropped. Each is a separate task, so that a panic in one costs that part only.
async fn work(queues: Arc<FetchQueues>, context: Rc<ThreadContext>) {
    let mut parts = tokio::task::JoinSet::new();
    while let Some(slot) = context.flight.slot().await {
        tokio::select! {
            part = queues.parts.next() => drop(parts.spawn_local(fetch(queues.clone(), context.clone(), part, slot))),
            () = context.flight.wanted() => drop(slot),
            Some(ended) = parts.join_next(), if !parts.is_empty() => if let Err(why) = ended {
                log::error!("a fetch task panicked: {why}");
            },
        }
    }
}

async fn fetch(queues: Arc<FetchQueues>, context: Rc<ThreadContext>, part: ObjectPart, slot: PartSlot) {
    let clock = &context.shared.clock;
    let begun = clock.now();
    let (slot, filled) = transfer::run(&context, part, slot).await;
    let end = PartEnd { filled, begun, now: clock.now(), is_limiting: queues.parts.is_waiting() };
    context.flight.end(slot, &end);
}

async fn dispatch(queues: Arc<FetchQueues>, context: Rc<ThreadContext>) {
    let mut calls = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            call = queues.calls.next() => drop(calls.spawn_local(call(context.clone()))),
            Some(ended) = calls.join_next(), if !calls.is_empty() => if let Err(why) = ended {
                log::error!("a store call panicked: {why}");
            },
        }
    }
}
