//! Size of the shard plane.

/// Size of the shard plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardPlane {
    pub(crate) threads: usize,
    /// Shards in flight.
    pub(crate) permits: usize,
    /// Shards that are unpacked or written at the same time.
    pub(crate) work: usize,
}
