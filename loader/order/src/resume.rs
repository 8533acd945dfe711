//! Start of an epoch: from a checkpoint or from its beginning, with the arguments that are resolved then.

use super::config::{CANONICAL_NODES_MAX, OrderConfig, ShuffleAlgo};
use super::error::OrderError;
use super::shape::SAMPLES_MAX;
use super::world::World;

/// The reference's checkpoint: its five keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Cells of the epoch that have been delivered, all ranks together.
    pub sample_in_epoch: u64,
    /// Canonical nodes; overrides the configuration's.
    pub num_canonical_nodes: u64,
    /// Seed of shuffling and sampling; overrides the configuration's.
    pub shuffle_seed: u64,
    /// Physical nodes of the first run; `None` in old checkpoints.
    pub initial_physical_nodes: Option<u64>,
}

/// Start of an epoch, and the arguments resolved for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) epoch: u64,
    pub(super) sample_in_epoch: u64,
    pub(super) canonical: u64,
    pub(super) seed: u64,
    pub(super) initial_nodes: Option<u64>,
    pub(super) block: u64,
}

impl Start {
    /// The start of `epoch`, or of the checkpoint's epoch if that is later. A checkpoint of an earlier epoch skips
    /// nothing, but its canonical nodes and seed still apply, as in a process of the reference that has resumed.
    pub(super) fn new(
        config: &OrderConfig,
        world: World,
        epoch: u64,
        resume: Option<&Resume>,
    ) -> Result<Self, OrderError> {
        let nodes = u64::from(world.nodes);
        let default_canonical = match config.shuffle_algo {
            ShuffleAlgo::Py1s | ShuffleAlgo::Py2s => 64 * nodes,
            ShuffleAlgo::Naive | ShuffleAlgo::Py1br | ShuffleAlgo::Py1e => nodes,
        };
        let canonical = match resume {
            Some(resume) => resume.num_canonical_nodes,
            None => config.num_canonical_nodes.filter(|&c| c > 0).unwrap_or(default_canonical),
        };
        check_canonical(canonical)?;
        let initial_nodes = resume.and_then(|resume| resume.initial_physical_nodes);
        check_initial_nodes(initial_nodes)?;
        let seen = resume.map_or(0, |resume| resume.sample_in_epoch);
        OrderError::unless(seen <= 4 * SAMPLES_MAX, "sample_in_epoch", "at most 2^50")?;
        let current = resume.filter(|resume| resume.epoch >= epoch);
        Ok(Self {
            epoch: current.map_or(epoch, |resume| resume.epoch),
            sample_in_epoch: current.map_or(0, |resume| resume.sample_in_epoch),
            canonical,
            seed: resume.map_or(config.shuffle_seed, |resume| resume.shuffle_seed),
            initial_nodes,
            block: config.shuffle_block_size.unwrap_or_else(|| default_block(canonical)),
        })
    }
}

pub(super) fn check_canonical(nodes: u64) -> Result<(), OrderError> {
    OrderError::unless((1..=CANONICAL_NODES_MAX).contains(&nodes), "num_canonical_nodes", "from 1 to 1,048,576")
}

pub(super) fn check_initial_nodes(nodes: Option<u64>) -> Result<(), OrderError> {
    let allowed = 1..=1 << 24;
    OrderError::unless(allowed.contains(&nodes.unwrap_or(1)), "initial_physical_nodes", "from 1 to 16,777,216")
}

/// Default of the samples of a shuffle block: 4 million over the canonical nodes, at least 2^18.
fn default_block(canonical: u64) -> u64 {
    (4_000_000 / canonical).max(1 << 18)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: Resume = Resume {
        epoch: 3,
        sample_in_epoch: 40,
        num_canonical_nodes: 8,
        shuffle_seed: 5,
        initial_physical_nodes: Some(4),
    };

    fn start(epoch: u64, resume: Option<&Resume>) -> Start {
        let world = World { nodes: 2, ranks_per_node: 8, workers_per_rank: 1 };
        let config = OrderConfig { shuffle_algo: ShuffleAlgo::Py1s, ..OrderConfig::default() };
        Start::new(&config, world, epoch, resume).expect("a good start")
    }

    #[test]
    fn canonical_nodes_and_block_follow_world_and_algorithm() {
        let fresh = start(1, None);
        assert_eq!((fresh.canonical, fresh.block, fresh.epoch, fresh.sample_in_epoch), (128, 1 << 18, 1, 0));
        assert_eq!(default_block(1), 4_000_000);
        assert_eq!(default_block(8), 500_000);
    }

    #[test]
    fn a_checkpoint_overrides_the_configuration() {
        let resumed = start(0, Some(&STATE));
        assert_eq!((resumed.epoch, resumed.sample_in_epoch), (3, 40));
        assert_eq!((resumed.canonical, resumed.seed, resumed.initial_nodes), (8, 5, Some(4)));
    }

    #[test]
    fn a_checkpoint_of_an_earlier_epoch_skips_nothing() {
        let later = start(4, Some(&STATE));
        assert_eq!((later.epoch, later.sample_in_epoch, later.seed), (4, 0, 5));
    }
}
