//! Exchanges that fail as a seed says.

use super::Exchange;
use crate::store::retry::Draws;
use crate::store::source::{Body, Failure, GetRequest, GetResponse, Source};
use crate::store::thread::ThreadContext;
use crate::sync::Mutex;
use async_trait::async_trait;

/// How often a remote fails. The same seed and the same order of requests give the same failures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Seed of the draws.
    pub seed: u64,
    /// Requests of a thousand that get no answer.
    pub refuse_per_mille: u64,
    /// Bodies of a thousand that break off somewhere in the first mebibyte.
    pub cut_per_mille: u64,
    /// Bodies of a thousand with one bit flipped near the front: nobody notices before the hash is checked.
    pub flip_per_mille: u64,
}

/// Where in a body things go wrong at the latest.
const FAULT_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Fault {
    faults: Faults,
    draws: Mutex<Draws>,
}

impl Fault {
    pub(crate) fn new(faults: Faults) -> Self {
        Self { faults, draws: Mutex::new(Draws::new(faults.seed)) }
    }
}

#[async_trait(?Send)]
impl Exchange for Fault {
    async fn get(&self, inner: &dyn Source, at: &ThreadContext, request: &GetRequest) -> Result<GetResponse, Failure> {
        // Always five draws, so that one fault more or less does not move all others.
        let [refuse, cut, flip, cut_at, flip_at] = {
            let mut draws = self.draws.lock();
            std::array::from_fn(|_| draws.next())
        };
        if refuse % 1000 < self.faults.refuse_per_mille {
            return Err(Failure::network("refused by the fault wrapper"));
        }
        let mut response = inner.get(at, request).await?;
        let reach = response.promised.unwrap_or(FAULT_BYTES).clamp(1, FAULT_BYTES);
        response.body = Box::new(FaultBody {
            inner: response.body,
            at: 0,
            cut_at: (cut % 1000 < self.faults.cut_per_mille).then_some(cut_at % reach),
            flip_at: (flip % 1000 < self.faults.flip_per_mille).then_some(flip_at % reach),
        });
        Ok(response)
    }
}

struct FaultBody {
    inner: Box<dyn Body>,
    /// Bytes given out so far.
    at: u64,
    cut_at: Option<u64>,
    flip_at: Option<u64>,
}

#[async_trait(?Send)]
impl Body for FaultBody {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let left = self.cut_at.map_or(u64::MAX, |cut| cut - self.at);
        if left == 0 {
            return Err(Failure::network("cut by the fault wrapper"));
        }
        let n = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let n = self.inner.read(&mut out[..n]).await?;
        if let Some(flip) = self.flip_at.and_then(|flip| flip.checked_sub(self.at)).filter(|&flip| flip < n as u64) {
            out[flip as usize] ^= 1;
        }
        self.at += n as u64;
        Ok(n)
    }
}
