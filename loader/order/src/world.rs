//! Processes of a training job and their nodes.

use super::error::OrderError;
use super::ids::{Node, Rank};

/// Shape of a training job. All nodes have the same number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    /// Physical nodes, at least 1.
    pub nodes: u32,
    /// Ranks (devices) of each node, at least 1.
    pub ranks_per_node: u32,
    /// Worker processes of each rank that share its batches in turn, at least 1. `Loader` plans with 1.
    pub workers_per_rank: u32,
}

impl World {
    /// One rank on one node.
    pub fn single() -> Self {
        Self { nodes: 1, ranks_per_node: 1, workers_per_rank: 1 }
    }

    /// Number of ranks.
    pub fn ranks(self) -> u64 {
        u64::from(self.nodes) * u64::from(self.ranks_per_node)
    }

    /// The node of `rank`.
    pub fn node_of(self, rank: Rank) -> Node {
        Node(rank.0 / self.ranks_per_node)
    }

    /// The world in which each group of `replication` consecutive ranks counts as one rank, since all of a group get
    /// the same samples. If the groups do not fill nodes evenly, they count as ranks of a single node.
    ///
    /// # Errors
    /// `replication` is 0 or does not divide the number of ranks.
    pub fn replicate(self, replication: u32) -> Result<Self, OrderError> {
        OrderError::unless(replication > 0, "replication", "positive")?;
        let ranks = self.ranks();
        if !ranks.is_multiple_of(u64::from(replication)) {
            return Err(OrderError::ReplicationDoesNotDivide { replication: u64::from(replication), ranks });
        }
        let ranks = ranks / u64::from(replication);
        let nodes = match ranks % u64::from(self.ranks_per_node) {
            0 => ranks / u64::from(self.ranks_per_node),
            _ => 1,
        };
        // Both quotients are at most `ranks`, which `validate` bounds.
        Ok(Self { nodes: nodes as u32, ranks_per_node: (ranks / nodes) as u32, ..self })
    }

    /// Checks the bounds that the plan's arithmetic relies on.
    ///
    /// # Errors
    /// A count is 0, or ranks times workers exceed 2^24.
    pub fn validate(self) -> Result<(), OrderError> {
        let counts = [self.nodes, self.ranks_per_node, self.workers_per_rank];
        let all = counts.iter().fold(1_u128, |product, &n| product * u128::from(n));
        OrderError::unless(
            all > 0 && all <= 1 << 24,
            "the number of nodes, ranks and workers",
            "at least 1 each and at most 16,777,216 together",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(nodes: u32, ranks_per_node: u32) -> World {
        World { nodes, ranks_per_node, workers_per_rank: 3 }
    }

    #[test]
    fn replication_keeps_nodes_that_groups_fill_evenly() {
        assert_eq!(world(4, 8).replicate(2), Ok(world(2, 8)));
        assert_eq!(world(1, 8).replicate(2), Ok(world(1, 4)));
        assert_eq!(world(3, 2).replicate(3), Ok(world(1, 2)));
        assert_eq!(world(3, 4).replicate(2), Ok(world(1, 6)));
    }

    #[test]
    fn replication_must_divide_the_ranks() {
        assert!(world(1, 8).replicate(3).is_err());
        assert!(world(1, 8).replicate(0).is_err());
    }

    #[test]
    fn a_world_without_ranks_is_rejected() {
        assert!(world(0, 8).validate().is_err());
        assert!(world(1 << 20, 1 << 20).validate().is_err());
        assert!(world(2, 8).validate().is_ok());
    }
}
