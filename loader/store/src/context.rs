//! State that the fetch threads share, and the state of each thread.

use super::config::StoreConfig;
use super::flight::FlightLimit;
use super::hedge::Hedging;
use super::http::{ConnectionPool, Proxies, ReachedServers, Tls};
use super::retry::{Draws, RetryLog};
use forebay_core::clock::Clock;
use forebay_core::stats::{Counter, Stats};
use forebay_core::sync::Arc;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Longest time between two checks of a clock that a test advances.
const MANUAL_TICK: Duration = Duration::from_millis(1);

/// Counters of all fetch threads, resolved once.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Requests sent, including further attempts and redirects.
    pub(crate) requests: Arc<Counter>,
    pub(crate) bytes: Arc<Counter>,
    /// Attempts after the first.
    pub(crate) retries: Arc<Counter>,
    pub(crate) connections: Arc<Counter>,
    /// Second requests for parts that are late, and the bytes that they received.
    pub(crate) throttled: Arc<Counter>,
    pub(crate) hedges: Arc<Counter>,
    pub(crate) hedge_bytes: Arc<Counter>,
}

/// Settings and services that all fetch threads share.
pub(crate) struct StoreContext {
    pub(crate) config: StoreConfig,
    pub(crate) clock: Clock,
    pub(crate) stats: Arc<Stats>,
    pub(crate) counters: Counters,
    pub(crate) tls: Tls,
    pub(crate) proxies: Proxies,
    pub(crate) reached: ReachedServers,
    pub(crate) retry_log: RetryLog,
}

impl StoreContext {
    pub(crate) fn new(mut config: StoreConfig, clock: Clock, stats: Arc<Stats>) -> Self {
        config.parts_in_flight_max = config.parts_in_flight_max.min(connections_max() / config.fetch_threads.max(1));
        let counters = Counters {
            requests: stats.counter("store_requests"),
            bytes: stats.counter("store_bytes"),
            retries: stats.counter("store_retries"),
            throttled: stats.counter("store_throttled"),
            connections: stats.counter("store_connections"),
            hedges: stats.counter("store_hedges"),
            hedge_bytes: stats.counter("store_hedge_bytes"),
        };
        let proxies = config.proxies.clone().unwrap_or_else(Proxies::from_env);
        Self {
            counters,
            tls: Tls::new(config.ca_file.clone()),
            proxies,
            reached: ReachedServers::default(),
            retry_log: RetryLog::default(),
            config,
            clock,
            stats,
        }
    }
}

/// Returns the number of connections that all fetch threads may have: a quarter of the files that this process may
/// open.
fn connections_max() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    files.map_or(usize::MAX, |files| files as usize / 4)
}

/// State of one fetch thread, which never leaves it.
pub(crate) struct ThreadContext {
    pub(crate) shared: Arc<StoreContext>,
    pub(crate) connections: Rc<ConnectionPool>,
    pub(crate) draws: RefCell<Draws>,
    /// Limit of the parts in flight.
    pub(crate) flight: FlightLimit,
    /// Times of recent parts.
    pub(crate) hedging: Hedging,
    /// This thread's runtime has a ring.
    pub(crate) has_ring: bool,
}

impl ThreadContext {
    pub(crate) fn new(shared: &Arc<StoreContext>, index: usize, has_ring: bool) -> Self {
        let config = &shared.config;
        Self {
            connections: Rc::new(ConnectionPool::new(
                config.parts_in_flight.max(config.parts_in_flight_max),
                shared.clock.clone(),
            )),
            draws: RefCell::new(Draws::new(config.seed ^ ((index as u64) << 32))),
            flight: FlightLimit::new(config),
            hedging: Hedging::default(),
            has_ring,
            shared: shared.clone(),
        }
    }

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
        let tick = tokio::time::sleep(MANUAL_TICK);
        tokio::pin!(tick);
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            while clock.now() < deadline {
                if tick.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                tick.as_mut().reset(tokio::time::Instant::now() + MANUAL_TICK);
            }
            Poll::Ready(None)
        })
        .await
    }
}
