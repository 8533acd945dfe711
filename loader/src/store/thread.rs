//! The fetch threads: a single-threaded runtime each, with tokio-uring where the kernel allows it.
//!
//! Every thread runs `parts_in_flight` workers that take parts from the common queue, so an object's ranges spread over
//! all threads, plus one dispatcher for small jobs (listing, `get_small`, credentials), which never wait behind parts.

use super::config::StoreConfig;
use super::http::{Client, Tls};
use super::queue::Queue;
use super::retry::Draws;
use super::transfer::{self, Part};
use crate::clock::Clock;
use crate::stats::{Counter, Stats};
use crate::sync::{Arc, AtomicBool, Ordering};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// A future that stays on its thread.
pub(crate) type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// A small job: becomes a future on the thread that takes it.
pub(crate) type Call = Box<dyn FnOnce(Rc<ThreadContext>) -> LocalFuture<()> + Send>;

/// Parts that may wait for a worker: 65,536 parts of 8 MiB are half a TiB ahead.
const QUEUED_PARTS_MAX: usize = 1 << 16;

/// Small jobs that may wait.
const QUEUED_CALLS_MAX: usize = 1 << 12;

/// How often a wait looks at a clock that a test moves by hand.
const MANUAL_TICK: Duration = Duration::from_millis(1);

/// Counters of everything the fetch threads do, resolved once.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Requests sent, attempts and redirects included.
    pub(crate) requests: Arc<Counter>,
    /// Bytes of objects received.
    pub(crate) bytes: Arc<Counter>,
    /// Attempts after the first.
    pub(crate) retries: Arc<Counter>,
    /// Connections opened.
    pub(crate) connections: Arc<Counter>,
}

impl Counters {
    pub(crate) fn new(stats: &Stats) -> Self {
        Self {
            requests: stats.counter("store_requests"),
            bytes: stats.counter("store_bytes"),
            retries: stats.counter("store_retries"),
            connections: stats.counter("store_connections"),
        }
    }
}

/// What callers and fetch threads share.
pub(crate) struct Shared {
    pub(crate) config: StoreConfig,
    pub(crate) clock: Clock,
    pub(crate) stats: Arc<Stats>,
    pub(crate) counters: Counters,
    pub(crate) parts: Queue<Part>,
    pub(crate) calls: Queue<Call>,
    pub(crate) tls: Tls,
    stopped: AtomicBool,
    stop: Notify,
}

impl Shared {
    pub(crate) fn new(config: StoreConfig, clock: Clock, stats: Arc<Stats>) -> Self {
        Self {
            counters: Counters::new(&stats),
            tls: Tls::new(config.ca_file.clone()),
            config,
            clock,
            stats,
            parts: Queue::new(QUEUED_PARTS_MAX),
            calls: Queue::new(QUEUED_CALLS_MAX),
            stopped: AtomicBool::new(false),
            stop: Notify::new(),
        }
    }

    /// Ends every thread; what is queued or under way fails as closed.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.parts.close();
        self.calls.close();
        self.stop.notify_waiters();
    }

    async fn stopped(&self) {
        let woken = self.stop.notified();
        tokio::pin!(woken);
        woken.as_mut().enable();
        if !self.stopped.load(Ordering::Acquire) {
            woken.await;
        }
    }
}

/// What belongs to one fetch thread and never leaves it.
pub(crate) struct ThreadContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) client: Rc<Client>,
    pub(crate) draws: RefCell<Draws>,
    /// Whether this thread's runtime has a ring.
    pub(crate) has_ring: bool,
}

impl ThreadContext {
    /// Waits for `time`.
    pub(crate) async fn pause(&self, time: Duration) {
        if self.shared.clock.is_manual() {
            self.shared.clock.advance(time);
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(time).await;
        }
    }

    /// Runs `work` for at most `limit`; `None` when the time is over.
    pub(crate) async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let clock = &self.shared.clock;
        if !clock.is_manual() {
            return tokio::time::timeout(limit, work).await.ok();
        }
        let deadline = clock.now() + limit;
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = tokio::time::sleep(MANUAL_TICK) => if clock.now() >= deadline { return None },
            }
        }
    }
}

/// Whether this process may make a ring of the size that tokio-uring asks for; its own start panics when it may not.
fn ring_is_allowed(config: &StoreConfig) -> std::io::Result<()> {
    if !config.io_uring {
        return Err(std::io::Error::other("turned off by the configuration"));
    }
    io_uring::IoUring::new(256).map(drop)
}

/// A thread's whole life.
pub(crate) fn run(shared: Arc<Shared>, index: usize) {
    if let Some(on_start) = &shared.config.on_thread_start {
        on_start(index);
    }
    let ring = ring_is_allowed(&shared.config).and_then(|()| tokio_uring::Runtime::new(&tokio_uring::builder()));
    match ring {
        Ok(runtime) => runtime.block_on(serve(shared, index, true)),
        Err(why) => {
            shared.stats.note(format!("fetch threads run without io_uring: {why}"));
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => {
                    tokio::task::LocalSet::new().block_on(&runtime, serve(shared, index, false));
                }
                Err(why) => {
                    log::error!("a fetch thread cannot start its runtime: {why}");
                    shared.stop();
                }
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, index: usize, has_ring: bool) {
    let seed = shared.config.seed ^ ((index as u64) << 32);
    let context = Rc::new(ThreadContext {
        client: Rc::new(Client::new(shared.config.parts_in_flight, shared.clock.clone())),
        draws: RefCell::new(Draws::new(seed)),
        has_ring,
        shared: shared.clone(),
    });
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..shared.config.parts_in_flight {
        tasks.spawn_local(work(context.clone()));
    }
    tasks.spawn_local(dispatch(context));
    shared.stopped().await;
    // Dropping the tasks drops their parts, which fail as closed.
    tasks.shutdown().await;
}

/// Takes parts until it is dropped. Each runs as its own task, so that a panic in one costs that part only.
async fn work(context: Rc<ThreadContext>) {
    loop {
        let part = context.shared.parts.next().await;
        let mut task = tokio::task::JoinSet::new();
        task.spawn_local(transfer::run(context.clone(), part));
        if let Some(Err(why)) = task.join_next().await {
            log::error!("a fetch task panicked: {why}");
        }
    }
}

async fn dispatch(context: Rc<ThreadContext>) {
    let mut calls = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            call = context.shared.calls.next() => drop(calls.spawn_local(call(context.clone()))),
            Some(ended) = calls.join_next(), if !calls.is_empty() => if let Err(why) = ended {
                log::error!("a store call panicked: {why}");
            },
        }
    }
}
