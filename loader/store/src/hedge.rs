//! Second requests for parts that are far slower than their peers ("hedged requests": Dean and Barroso, The Tail at
//! Scale, 2013).
//!
//! A stalled connection would hold a shard until its timeout, while a second request usually takes a different path and
//! is answered at once. The rule: a part is late after three times the time that nine of ten recent parts of the same
//! server needed, and after half a second at least. Then its missing bytes are requested again, once in an attempt. The
//! first of the two to finish wins, and the second one is dropped with its connection.
//!
//! Where all parts are slow, so are the peers, and nothing is late. Nothing is requested twice while the server has too
//! many requests, and never more than 5 % of the bytes that were fetched.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Most recent parts that a part is compared with.
const PEERS_MAX: usize = 64;

/// Fewest peers that a part is compared with.
const PEERS_MIN: usize = 10;

/// Most servers with peers. All of them are forgotten when there is one more.
const SERVERS_MAX: usize = 64;

/// Share of the peers that are faster than [`slow`].
const QUANTILE: f64 = 0.9;

/// Times that a late part takes longer than its slow peers.
const FACTOR: u32 = 3;

/// Shortest time after which a part is late: a hiccup of the network or of this machine is not worth a request.
const LATE_MIN: Duration = Duration::from_millis(500);

/// Bytes that are fetched for each byte that may be fetched twice.
const FETCHED_PER_HEDGED: u64 = 20;

/// Times of recent parts of one fetch thread, and its budget of extra bytes.
#[derive(Default)]
pub(crate) struct Hedging(RefCell<HedgeState>);

/// Lengths and times of parts.
type Peers = VecDeque<(usize, Duration)>;

#[derive(Default)]
struct HedgeState {
    /// Most recent parts of each server.
    peers: HashMap<Box<str>, Peers>,
    fetched_bytes: u64,
    hedged_bytes: u64,
}

/// Bytes of the budget that a second request may receive. Those that it does not receive return to the budget.
pub(crate) struct HedgeBudget<'a> {
    hedging: &'a Hedging,
    remaining: u64,
}

impl Hedging {
    /// Records that `bytes` bytes of the folder `remote` have arrived, in `time` since their request.
    pub(crate) fn record(&self, remote: &str, bytes: usize, time: Duration) {
        let mut state = self.0.borrow_mut();
        state.fetched_bytes += bytes as u64;
        let server = server(remote);
        if !state.peers.contains_key(server) {
            if state.peers.len() == SERVERS_MAX {
                state.peers.clear();
            }
            state.peers.insert(server.into(), Peers::new());
        }
        let Some(peers) = state.peers.get_mut(server) else { return };
        if peers.len() == PEERS_MAX {
            peers.pop_front();
        }
        peers.push_back((bytes, time));
    }

    /// Returns the time after which a request for `bytes` bytes of the folder `remote` is late; `None` while there are
    /// too few peers.
    pub(crate) fn late_after(&self, remote: &str, bytes: usize) -> Option<Duration> {
        let state = self.0.borrow();
        let peers = state.peers.get(server(remote)).filter(|peers| peers.len() >= PEERS_MIN);
        peers.map(|peers| (slow(peers, bytes) * FACTOR).max(LATE_MIN))
    }

    /// Takes `bytes` bytes of the budget, if it has as many.
    pub(crate) fn budget(&self, bytes: usize) -> Option<HedgeBudget<'_>> {
        let mut state = self.0.borrow_mut();
        let hedged = state.hedged_bytes + bytes as u64;
        if hedged * FETCHED_PER_HEDGED > state.fetched_bytes {
            return None;
        }
        state.hedged_bytes = hedged;
        Some(HedgeBudget { hedging: self, remaining: bytes as u64 })
    }
}

/// Returns the server of a folder, or the bucket: the start of its address.
fn server(remote: &str) -> &str {
    remote.match_indices('/').nth(2).map_or(remote, |(end, _)| &remote[..end])
}

/// Returns the time in which most of `peers` would have fetched `bytes` bytes. Larger parts take longer, smaller ones
/// may.
fn slow(peers: &Peers, bytes: usize) -> Duration {
    let scaled = |&(peer, time): &(usize, Duration)| time.mul_f64((bytes as f64 / peer.max(1) as f64).max(1.0));
    let mut times: Vec<_> = peers.iter().map(scaled).collect();
    times.sort_unstable();
    times[(times.len() as f64 * QUANTILE) as usize]
}

impl HedgeBudget<'_> {
    /// Notes that the second request has received `bytes` bytes. More than were taken count, too: a server without
    /// ranges sends all bytes before the missing ones.
    pub(crate) fn spend(&mut self, bytes: usize) {
        let taken = self.remaining.min(bytes as u64);
        self.remaining -= taken;
        self.hedging.0.borrow_mut().hedged_bytes += bytes as u64 - taken;
    }
}

impl Drop for HedgeBudget<'_> {
    fn drop(&mut self) {
        self.hedging.0.borrow_mut().hedged_bytes -= self.remaining;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: &str = "https://server/folder";
    const MS: Duration = Duration::from_millis(1);

    fn hedging(peers: impl IntoIterator<Item = (usize, Duration)>) -> Hedging {
        let hedging = Hedging::default();
        peers.into_iter().for_each(|(bytes, time)| hedging.record(REMOTE, bytes, time));
        hedging
    }

    #[test]
    fn a_part_is_late_after_three_times_the_time_of_its_slow_peers() {
        let nine_fast = |n: u32| (100, if n % 10 == 9 { 60_000 * MS } else { 300 * MS });
        assert_eq!(hedging((0..9).map(nine_fast)).late_after(REMOTE, 100), None, "too few peers");
        assert_eq!(hedging((0..10).map(nine_fast)).late_after(REMOTE, 100), Some(180_000 * MS));
        // One of twenty may be slow without being the rule.
        let few_slow = hedging((0..20).map(|n| (100, if n == 7 { 60_000 * MS } else { 300 * MS })));
        assert_eq!(few_slow.late_after(REMOTE, 100), Some(900 * MS));
        assert_eq!(few_slow.late_after(REMOTE, 1000), Some(9000 * MS), "ten times the bytes");
        assert_eq!(few_slow.late_after(REMOTE, 1), Some(900 * MS), "latency may be most of the time");
        assert_eq!(hedging((0..10).map(|_| (100, MS))).late_after(REMOTE, 100), Some(LATE_MIN));
    }

    #[test]
    fn old_peers_are_forgotten() {
        let slow_then_fast = (0..100).map(|n| (100, if n < 36 { 9000 * MS } else { 300 * MS }));
        assert_eq!(hedging(slow_then_fast).late_after(REMOTE, 100), Some(900 * MS));
    }

    #[test]
    fn second_requests_receive_at_most_a_twentieth_of_the_bytes() {
        let hedging = hedging((0..40).map(|_| (100, MS)));
        assert!(hedging.budget(201).is_none(), "4000 bytes were fetched");
        let mut first = hedging.budget(150).expect("enough");
        assert!(hedging.budget(51).is_none());
        first.spend(30);
        drop(first);
        assert!(hedging.budget(171).is_none());
        drop(hedging.budget(170).expect("unused bytes return"));
        let mut whole = hedging.budget(170).expect("unused bytes return");
        whole.spend(1000);
        drop(whole);
        hedging.record(REMOTE, 1000 * FETCHED_PER_HEDGED as usize - 4000, MS);
        assert!(hedging.budget(1).is_none(), "skipped bytes are part of the budget");
    }

    #[test]
    fn a_part_is_compared_with_parts_of_the_same_server() {
        // One part in twenty comes from a server that is far away.
        let hedging = hedging((0..190).map(|_| (100, MS)));
        let far = "s3://far/folder";
        (0..9).for_each(|_| hedging.record(far, 100, 5000 * MS));
        assert_eq!(hedging.late_after(far, 100), None, "too few peers");
        hedging.record("s3://far/second/folder", 100, 5000 * MS);
        assert_eq!(hedging.late_after(far, 100), Some(15_000 * MS));
        assert_eq!(hedging.late_after("https://server", 100), Some(LATE_MIN));
    }

    #[test]
    fn the_number_of_servers_has_a_bound() {
        let hedging = Hedging::default();
        (0..10 * SERVERS_MAX).for_each(|number| hedging.record(&format!("https://{number}/"), 100, MS));
        assert!(hedging.0.borrow().peers.len() <= SERVERS_MAX);
    }
}
