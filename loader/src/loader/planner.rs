//! Plans of a loader's epochs.

use super::epoch_steps::EpochSteps;
use super::packing::Packing;
use crate::catalog::{Catalog, Selections, shortened};
use crate::config::{LoaderConfig, StreamConfig};
use crate::decode::DRAWS_VERSION;
use crate::decode::compose::Composition;
use crate::error::Result;
use crate::format::HashAlgo;
use crate::order::{EpochPlan, OrderConfig, Rank, Resume, SAMPLE_WEIGHTS, Weight, World};
use crate::pipeline::{BatchPlan, MakePlan};
use crate::state::{ForebayState, SELECTION, STATE_VERSION, SkippedSteps};
use crate::subsets::values::words_of;
use crate::sync::{Arc, Mutex};
use std::collections::BTreeMap;

/// Longest description of weights in a checkpoint, which in all has less than 1 kB.
const WEIGHTS_BYTES_MAX: usize = 200;

/// Makes the plans of a loader's epochs.
#[derive(Clone)]
pub(super) struct Planner {
    catalog: Arc<Catalog>,
    order: OrderConfig,
    pub(super) world: World,
    /// Packs, if documents are packed.
    packing: Option<Arc<Packing>>,
    /// Composition of samples with partners.
    composition: Option<Arc<Composition>>,
    /// The last plan, which clones have in common: a plan of a million shards takes a second.
    last: Arc<Mutex<Option<KeptPlan>>>,
    /// Batches of whole epochs for this rank; of samples, of the first epoch, since all are equal.
    steps: Arc<Mutex<EpochSteps>>,
}

/// Plan that may be asked for again.
struct KeptPlan {
    plan: BatchPlan,
    /// True if no checkpoint had a part in it.
    is_fresh: bool,
}

impl KeptPlan {
    /// Returns true if it is the plan of these arguments.
    fn is_of(&self, epoch: u64, resume: Option<&Resume>) -> bool {
        let cells = self.plan.cells();
        let start = cells.sample_in_epoch();
        let Some(resume) = resume else { return self.is_fresh && cells.epoch() == epoch && start == 0 };
        // A checkpoint of an earlier epoch skips nothing.
        let resume = if resume.epoch >= epoch { *resume } else { Resume { epoch, sample_in_epoch: 0, ..*resume } };
        cells.state(start) == resume
    }
}

impl Planner {
    /// # Errors
    ///
    /// `Config` for arguments of the order that cannot work.
    pub(super) fn new(
        catalog: Arc<Catalog>,
        order: OrderConfig,
        world: World,
        packing: Option<Packing>,
    ) -> Result<Self> {
        // The plan itself is made later; this check finds mistakes in the arguments now.
        crate::order::check(catalog.shape(), &order, world)?;
        let (packing, last, steps) = (packing.map(Arc::new), Arc::default(), Arc::default());
        Ok(Self { catalog, order, world, packing, composition: None, last, steps })
    }

    /// Adds partners to the samples.
    pub(super) fn with_composition(self, composition: Option<Arc<Composition>>) -> Self {
        Self { composition, ..self }
    }

    /// Plans `epoch`, or the rest of it if `resume` is a checkpoint of it.
    pub(super) fn plan(&self, epoch: u64, resume: Option<&Resume>) -> Result<BatchPlan> {
        // Held while a plan is made: a second thread that asks for the same one waits for it.
        let mut last = self.last.lock();
        if let Some(kept) = last.as_ref().filter(|kept| kept.is_of(epoch, resume)) {
            return Ok(kept.plan.clone());
        }
        let (shape, order, world) = (self.catalog.shape(), &self.order, self.world);
        let plan = match &self.packing {
            None => {
                let plan = EpochPlan::new(shape, order, world, epoch, resume)?;
                match &self.composition {
                    None => BatchPlan::Samples(plan),
                    Some(composition) => BatchPlan::Groups(plan, composition.clone()),
                }
            }
            Some(packing) => BatchPlan::Packs(packing.plan(shape, order, world, epoch, resume)?),
        };
        *last = Some(KeptPlan { plan: plan.clone(), is_fresh: resume.is_none() });
        Ok(plan)
    }

    /// Returns a function that plans the epoch of `plan` from its beginning.
    pub(super) fn whole_plan(&self, plan: &BatchPlan) -> MakePlan {
        let (planner, plan) = (self.clone(), plan.clone());
        Box::new(move || match plan.cells().sample_in_epoch() {
            0 => Ok(plan.clone()),
            _ => planner.plan(plan.cells().epoch(), Some(&plan.cells().state(0))),
        })
    }

    /// Returns a function that plans the epoch after the epoch of `plan`.
    pub(super) fn next_plan(&self, plan: &BatchPlan) -> MakePlan {
        let (planner, epoch, resume) = (self.clone(), plan.cells().epoch() + 1, plan.cells().state(0));
        Box::new(move || planner.plan(epoch, Some(&resume)))
    }

    /// True if documents are packed. Epochs then differ in length.
    pub(super) fn makes_packs(&self) -> bool {
        self.packing.is_some()
    }

    /// Batches of an epoch for this rank from `sample_in_epoch` on, with the canonical nodes and seed of `resume`.
    pub(super) fn batches(
        &self,
        config: &LoaderConfig,
        resume: Option<Resume>,
        (epoch, sample_in_epoch): (u64, u64),
    ) -> Result<u64> {
        let epoch = if self.makes_packs() { epoch } else { 0 };
        let known = self.steps.lock().of(resume.as_ref(), epoch);
        if let Some(known) = known.filter(|_| sample_in_epoch == 0) {
            return Ok(known);
        }
        let resume = resume.map(|r| Resume { epoch, sample_in_epoch: 0, ..r });
        let mut plan = self.plan(epoch, resume.as_ref())?;
        if sample_in_epoch > 0 {
            plan = self.plan(epoch, Some(&plan.cells().state(sample_in_epoch)))?;
        }
        let order = plan.cells().rank(Rank(config.world.rank));
        let batches = if config.drop_last { order.samples() / u64::from(config.batch_size) } else { order.batches() };
        if sample_in_epoch == 0 {
            self.steps.lock().add(resume.as_ref(), epoch, batches);
        }
        Ok(batches)
    }

    /// Returns an epoch of packs with a known first step, and that step, of those for which `is_before` is true.
    pub(super) fn known_start(&self, resume: Option<Resume>, is_before: impl Fn(u64, u64) -> bool) -> (u64, u64) {
        self.steps.lock().start(resume.as_ref(), is_before)
    }

    /// Returns the number of the first step of the epoch of a checkpoint of packs, if it is known and not 0.
    pub(super) fn known_first(&self, at: &Resume) -> Option<u64> {
        self.steps.lock().known_first(at).filter(|first| self.makes_packs() && *first > 0)
    }

    /// Sets the number of the first step of the epoch of a checkpoint.
    pub(super) fn set_start(&self, at: &Resume, step: u64) {
        self.steps.lock().set_start(at, step);
    }

    /// Samples or packs of an epoch, of all ranks together.
    pub(super) fn epoch_samples(&self, epoch: u64, resume: Option<Resume>) -> Result<u64> {
        if self.makes_packs() {
            let resume = resume.map(|r| Resume { epoch, sample_in_epoch: 0, ..r });
            return Ok(self.plan(epoch, resume.as_ref())?.cells().shape().num_samples());
        }
        Ok(crate::order::shares_of(self.catalog.shape(), &self.order)?.epoch_size)
    }

    /// The numbers of packs of the epoch of a checkpoint, if they are known and few: of `running`, or kept ones.
    pub(super) fn saved_packs(&self, at: &Resume, running: Option<&BatchPlan>) -> Option<String> {
        let running = match running {
            Some(BatchPlan::Packs(plan)) => Some(plan),
            Some(BatchPlan::Samples(_) | BatchPlan::Groups(..)) | None => None,
        };
        self.packing.as_ref()?.saved_counts(at, running)
    }

    /// Keeps the numbers of packs of a checkpoint.
    ///
    /// # Errors
    ///
    /// `State` if they are damaged.
    pub(super) fn load_packs(&self, at: &Resume, text: &str) -> Result<()> {
        self.packing.as_ref().map_or(Ok(()), |packing| packing.load_counts(at, text))
    }

    /// The part of a checkpoint that only this loader reads.
    pub(super) fn forebay_state(&self, config: &LoaderConfig) -> ForebayState {
        let plan = crate::order::arguments(self.catalog.shape(), &self.order, self.world);
        let mut plan: BTreeMap<String, String> =
            plan.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let digests: Vec<&str> = self.catalog.streams().iter().map(|s| s.index_digest.as_str()).collect();
        plan.insert("index".to_owned(), HashAlgo::Xxh3_64.hex(digests.join(",").as_bytes()));
        if let Some((name, value)) = self.packing.as_ref().map(|packing| packing.argument()) {
            plan.insert(name.to_owned(), value);
        }
        let selection = Selections(self.catalog.streams());
        if let Some(digest) = selection.digest() {
            plan.insert(SELECTION.to_owned(), digest);
        }
        let shape = self.catalog.shape();
        let data = format!("{} samples in {} shards", shape.num_samples(), shape.num_shards());
        let weights = describe_weights(&self.order.weights);
        let mut described = vec![("shard sizes", data), ("weights", weights)];
        described.extend(selection.words().map(|words| (SELECTION, words)));
        if plan.contains_key(SAMPLE_WEIGHTS) {
            described.push((SAMPLE_WEIGHTS, describe_sample_weights(&config.streams)));
        }
        ForebayState {
            version: STATE_VERSION,
            batch_size: config.batch_size.into(),
            draws_version: DRAWS_VERSION,
            augment_seed: config.augment_seed(),
            skipped: SkippedSteps::default(),
            packs: None,
            first_step: None,
            plan,
            described: described.into_iter().map(|(name, words)| (name.to_owned(), words)).collect(),
        }
    }
}

/// Returns the arguments with the samples' weights in words; the first ones if there are many.
fn describe_sample_weights(streams: &[StreamConfig]) -> String {
    let words = |stream: &StreamConfig| match (&stream.select.weights, &stream.select.balance) {
        (Some(weights), _) => format!("weights={}", words_of(weights)),
        (None, Some(column)) => format!("balance={column:?}"),
        (None, None) => "none".to_owned(),
    };
    shortened(&streams.iter().map(words).collect::<Vec<_>>().join(", "), WEIGHTS_BYTES_MAX / 2)
}

/// Returns the streams' weights in words, such as "proportion 0.7, proportion 0.3"; the first ones if there are many.
fn describe_weights(weights: &[Weight]) -> String {
    let mut words = String::new();
    for (number, weight) in weights.iter().enumerate() {
        let one = match weight {
            Weight::Unset => "unset".to_owned(),
            Weight::Proportion(share) => format!("proportion {share:?}"),
            Weight::Repeat(times) => format!("repeat {times:?}"),
            Weight::Choose(samples) => format!("choose {samples}"),
        };
        let comma = if number == 0 { "" } else { ", " };
        if words.len() + comma.len() + one.len() > WEIGHTS_BYTES_MAX {
            return format!("{words}{comma}... ({} streams)", weights.len());
        }
        words = words + comma + &one;
    }
    words
}
