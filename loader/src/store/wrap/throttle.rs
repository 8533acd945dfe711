//! A slower network.

use super::Exchange;
use crate::clock::Clock;
use crate::store::source::{Body, Failure, GetRequest, GetResponse, Source};
use crate::store::thread::ThreadContext;
use crate::sync::{Arc, Mutex};
use async_trait::async_trait;
use std::time::Duration;

/// Bytes per turn at a throttled remote; small enough that transfers share the rate evenly.
const TURN_BYTES: usize = 64 << 10;

/// All bodies of the remote together give at most so many bytes a second.
#[derive(Debug)]
pub(crate) struct Throttle {
    pace: Arc<Pace>,
}

#[derive(Debug)]
struct Pace {
    bytes_per_s: u64,
    clock: Clock,
    /// When the bytes given out so far have had their time.
    due: Mutex<Duration>,
}

impl Pace {
    async fn turn(&self, n: usize) {
        let wait = {
            let now = self.clock.now();
            let mut due = self.due.lock();
            *due = (*due).max(now) + Duration::from_secs_f64(n as f64 / self.bytes_per_s as f64);
            *due - now
        };
        if self.clock.is_manual() {
            self.clock.advance(wait);
        } else {
            tokio::time::sleep(wait).await;
        }
    }
}

impl Throttle {
    /// A rate of 0 counts as 1.
    pub(crate) fn new(bytes_per_s: u64, clock: Clock) -> Self {
        let pace = Pace { bytes_per_s: bytes_per_s.max(1), clock, due: Mutex::default() };
        Self { pace: Arc::new(pace) }
    }
}

#[async_trait(?Send)]
impl Exchange for Throttle {
    async fn get(&self, inner: &dyn Source, at: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure> {
        let mut response = inner.get(at, request).await?;
        response.body = Box::new(ThrottleBody { inner: response.body, pace: self.pace.clone() });
        Ok(response)
    }
}

struct ThrottleBody {
    inner: Box<dyn Body>,
    pace: Arc<Pace>,
}

#[async_trait(?Send)]
impl Body for ThrottleBody {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let n = out.len().min(TURN_BYTES);
        let n = self.inner.read(&mut out[..n]).await?;
        self.pace.turn(n).await;
        Ok(n)
    }
}
