//! Selection of the shards to evict, from values alone.

/// Shard that may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Number of its directory in the group.
    pub(crate) member: usize,
    pub(crate) shard: u32,
    /// Bytes that its eviction frees.
    pub(crate) bytes: u64,
    /// Plan position of its next use; `None` if the plan does not use it.
    pub(crate) next_use: Option<u64>,
    /// Last access, for shards that the plan does not know.
    pub(crate) accessed_ns: u128,
    /// A process has it open, so its bytes are freed only when that process closes it.
    pub(crate) open: bool,
}

/// Returns the `candidates` to evict so that `need` bytes are freed, in order; `None` if all of them do not suffice.
///
/// `next_use` is the next use of the shard that room is made for. No shard that is used sooner is evicted. Shards that
/// the plan does not use at all come first, the least recently used of them first; then those with the farthest next
/// use. Shards that are open come last, whatever their use, because their room is not free at once.
pub(crate) fn choose(mut candidates: Vec<Candidate>, next_use: Option<u64>, need: u64) -> Option<Vec<Candidate>> {
    // A shard that is fetched without being in the plan is used now.
    let next_use = next_use.unwrap_or(0);
    candidates.retain(|c| c.next_use.is_none_or(|next| next >= next_use));
    candidates.sort_by_key(|c| {
        let farthest = std::cmp::Reverse(c.next_use.unwrap_or(u64::MAX));
        let oldest = if c.next_use.is_none() { c.accessed_ns } else { 0 };
        (c.open, c.next_use.is_some(), farthest, oldest, c.member, c.shard)
    });
    let mut freed = 0u64;
    let mut count = 0;
    while freed < need {
        freed = freed.saturating_add(candidates.get(count)?.bytes);
        count += 1;
    }
    candidates.truncate(count);
    Some(candidates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(shard: u32, next_use: Option<u64>, accessed_ns: u128, open: bool) -> Candidate {
        Candidate { member: 0, shard, bytes: 10, next_use, accessed_ns, open }
    }

    fn order(candidates: &[Candidate], next_use: Option<u64>, need: u64) -> Option<Vec<u32>> {
        choose(candidates.to_vec(), next_use, need).map(|chosen| chosen.iter().map(|c| c.shard).collect())
    }

    #[test]
    fn unplanned_shards_are_evicted_by_last_use_then_planned_ones_by_farthest_use_and_open_ones_last() {
        let all = [
            candidate(0, Some(7), 0, false),
            candidate(1, None, 30, false),
            candidate(2, Some(90), 0, false),
            candidate(3, None, 20, false),
            candidate(4, None, 1, true),
            candidate(5, Some(6), 0, false),
        ];
        assert_eq!(order(&all, Some(6), 60), Some(vec![3, 1, 2, 0, 5, 4]));
        assert_eq!(order(&all, Some(6), 11), Some(vec![3, 1]), "no more than needed");
        assert_eq!(order(&all, Some(6), 61), None, "not enough: none is chosen");
        assert_eq!(order(&all, Some(7), 60), None, "shard 5 is used sooner");
        assert_eq!(order(&all, None, 60), Some(vec![3, 1, 2, 0, 5, 4]), "random access counts as used now");
        assert_eq!(order(&all, Some(6), 0), Some(Vec::new()));
    }
}
