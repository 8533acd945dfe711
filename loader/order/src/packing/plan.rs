//! Plan of an epoch of packs.

use std::sync::Arc;

use super::config::{PackConfig, ProportionUnit};
use super::counts::PackCounts;
use super::layout::WindowLayout;
use super::lengths::{TokenLengths, check};
use super::shares::{samples_of, targets_of};
use crate::config::OrderConfig;
use crate::epoch::{EpochPlan, parallel_world};
use crate::error::OrderError;
use crate::ids::StreamId;
use crate::resume::{Resume, Start};
use crate::shape::{DataSetShape, Hasher};
use crate::world::World;

/// Name of the hash of packing among the arguments that must not change between a checkpoint and its resumption.
pub const PACKING: &str = "packing";

/// The packs of an epoch, or of its rest after a checkpoint, for all ranks. Cheap to clone; holds 4 bytes per window.
#[derive(Clone, Debug)]
pub struct PackPlan(pub(super) Arc<PackPlanParts>);

#[derive(Debug)]
pub(super) struct PackPlanParts {
    pub(super) layout: Arc<WindowLayout>,
    pub(super) counts: PackCounts,
    /// The second plan: its shards are windows, its samples packs.
    pub(super) packs: EpochPlan,
}

/// Totals of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackTotals {
    /// Packs.
    pub packs: u64,
    /// Tokens of the packs, without padding.
    pub tokens: u64,
    /// Tokens that the packs have room for.
    pub capacity: u64,
}

impl PackPlan {
    /// Plans the packs of `epoch` for `world`, or resumes as [`EpochPlan::new`] does. The batch size and positions
    /// count packs. `lengths` has the tokens of each stream's samples. `counts` are [`PackPlan::counts`] of the same
    /// epoch in an earlier process; without them, `threads` threads pack the whole epoch to count its packs.
    ///
    /// ```
    /// use forebay_order::{DataSetShape, OrderConfig, PackBatch, PackConfig, PackPlan, Rank, TokenLengths, World};
    /// use std::sync::Arc;
    ///
    /// // Five documents, packed into rows of 8 tokens.
    /// let shape = DataSetShape::new(&[vec![5]])?;
    /// let lengths = [Arc::new(TokenLengths::new(vec![5, 4, 3, 4, 8]))];
    /// let (order, packing) = (OrderConfig { batch_size: 2, ..OrderConfig::default() }, PackConfig::new(8));
    /// let plan = PackPlan::new(&shape, &order, (&packing, &lengths), World::single(), 0, None, None, 1)?;
    /// assert_eq!(plan.totals().packs, 3);
    ///
    /// let (mut packs, mut batch) = (plan.rank(Rank(0)), PackBatch::default());
    /// assert!(packs.next_batch(&mut batch)?);
    /// let documents: Vec<(u32, u64)> = batch.fragments.iter().map(|f| (f.pack, f.sample.sample.0)).collect();
    /// assert_eq!(documents, [(0, 0), (0, 2), (1, 1), (1, 3)]);
    /// # Ok::<(), forebay_order::OrderError>(())
    /// ```
    ///
    /// # Errors
    /// As [`EpochPlan::new`]; arguments of packing out of range; no document has a token; `counts` that are not of this
    /// epoch.
    #[allow(clippy::too_many_arguments, reason = "as EpochPlan::new, and the counts with the threads that make them")]
    pub fn new(
        shape: &DataSetShape,
        order: &OrderConfig,
        (packing, lengths): (&PackConfig, &[Arc<TokenLengths>]),
        world: World,
        epoch: u64,
        resume: Option<&Resume>,
        counts: Option<PackCounts>,
        threads: usize,
    ) -> Result<Self, OrderError> {
        packing.validate(order)?;
        let samples = (0..shape.num_streams() as u32).map(|stream| shape.samples_of(StreamId(stream)));
        check(samples.map(|samples| samples.end - samples.start), lengths.iter().map(|lengths| &**lengths))?;
        let start = Start::new(order, parallel_world(shape, order, world)?, epoch, resume)?;

        let first = Resume {
            epoch: start.epoch,
            sample_in_epoch: 0,
            num_canonical_nodes: start.canonical,
            shuffle_seed: start.seed,
            initial_physical_nodes: None,
        };
        let one_by_one = OrderConfig { batch_size: 1, replication: None, equal_ranks: false, ..order.clone() };
        let documents = match targets_of(shape, order, packing, lengths)? {
            None => EpochPlan::new(shape, &one_by_one, World::single(), start.epoch, Some(&first))?,
            Some(targets) => {
                let samples = samples_of(&targets, order);
                EpochPlan::of_tokens(shape, &one_by_one, samples, &targets, start.epoch, &first)?
            }
        };
        let seed = order.shuffle.then_some(u128::from(start.seed) + u128::from(start.epoch));
        let layout = Arc::new(WindowLayout::new(documents, packing.clone(), lengths.to_vec(), seed));

        let counts = match counts {
            Some(counts) if counts.may_be_of(&layout) => counts,
            Some(_) => return Err(OrderError::PackCounts),
            None => PackCounts::of(&layout, threads)?,
        };
        let sizes: Vec<u64> = counts.packs().iter().map(|&packs| packs.into()).collect();
        OrderError::unless(
            sizes.iter().any(|&packs| packs > 0),
            "the documents",
            "at least one with a token that overflow does not drop",
        )?;
        let dealt = OrderConfig {
            shuffle: false,
            partition_algo: order.partition_algo,
            num_canonical_nodes: Some(start.canonical),
            shuffle_seed: start.seed,
            batch_size: order.batch_size,
            replication: order.replication,
            equal_ranks: order.equal_ranks,
            ..OrderConfig::default()
        };
        let packs = EpochPlan::new(&DataSetShape::new(&[sizes])?, &dealt, world, epoch, resume)?;
        Ok(Self(Arc::new(PackPlanParts { layout, counts, packs })))
    }

    /// The plan of the packs: epoch, start, end, state and world, with packs as its samples. Its streams and shards are
    /// not the data set's.
    pub fn packs(&self) -> &EpochPlan {
        &self.0.packs
    }

    /// The plan of the documents, in the order in which windows take them.
    pub fn documents(&self) -> &EpochPlan {
        self.0.layout.documents()
    }

    /// The number of packs of each window, for a process that resumes this epoch.
    pub fn counts(&self) -> &PackCounts {
        &self.0.counts
    }

    /// Totals of the whole epoch, whatever this plan's start.
    pub fn totals(&self) -> PackTotals {
        let packs = self.0.packs.shape().num_samples();
        let capacity = packs * u64::from(self.0.layout.config.capacity());
        PackTotals { packs, tokens: self.0.counts.tokens(), capacity }
    }

    /// Value of the argument [`PACKING`]: the configuration, and a hash of the lengths.
    pub fn argument(packing: &PackConfig, lengths: &[Arc<TokenLengths>]) -> String {
        let mut hash = Hasher::default();
        lengths.iter().for_each(|lengths| hash.number(lengths.hash()));
        let PackConfig {
            length,
            method,
            overflow,
            pad_sequences_to,
            max_sequences,
            window,
            batch_tokens,
            proportion_unit,
            added,
        } = packing;
        let unit = match proportion_unit {
            ProportionUnit::Samples => "",
            // Absent in older checkpoints.
            ProportionUnit::Tokens => ", proportions of tokens",
        };
        let packs = match batch_tokens {
            Some(tokens) => format!("batches of {tokens} tokens with rows of at most {length}"),
            None => format!("{} of {length} tokens", method.name()),
        };
        let optional = |value: Option<u64>| value.map_or_else(|| "default".to_owned(), |value| value.to_string());
        format!(
            "{packs}, overflow {}, pad_sequences_to {pad_sequences_to}, max_sequences {}, window {}, \
             lengths {:016x}{unit}{}",
            overflow.name(),
            optional(max_sequences.map(u64::from)),
            optional(*window),
            hash.finish(),
            added.as_ref().map(|added| format!(", {}", added.argument())).unwrap_or_default(),
        )
    }
}
