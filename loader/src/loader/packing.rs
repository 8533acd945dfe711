//! Packs of a loader: the lengths of its documents, and the plans of its epochs.
//!
//! The plan of an epoch needs the number of packs of each window. The last ones that were counted or loaded with a
//! checkpoint are kept, so that a plan of the rest of an epoch counts nothing again.

use crate::config::{LoaderConfig, PackOptions};
use crate::decode::{DrawKey, FieldSpec, Output, Rearrangement};
use crate::error::{Error, ErrorKind, Result};
use crate::order::{
    AddedTokens, DataSetShape, OrderConfig, PACKING, PackConfig, PackCounts, PackPlan, Resume, StreamId, TokenLengths,
    World,
};
use crate::pipeline::PackLayout;
use crate::sync::{Arc, Mutex};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::collections::VecDeque;

/// Epochs with numbers of packs that are kept: the current one, its next one, and those that were asked for.
const KEPT_MAX: usize = 4;

/// Most bytes of the numbers of packs in a checkpoint, which in all has less than 4 kB. An epoch with more is counted
/// again.
const COUNTS_BYTES_MAX: usize = 2200;

/// Returns the field with the token ids of packs.
///
/// # Errors
///
/// `Config` for more fields than one, and for a field that makes no lists of token ids.
pub(super) fn ids_of(config: &LoaderConfig) -> Result<(&str, &FieldSpec)> {
    if let Some([(name, ids)]) = config.fields.as_deref()
        && ids.token_lists()?.is_some_and(|lists| lists == *ids)
    {
        return Ok((name, ids));
    }
    Err(Error::config(
        "packs are made of one field: of Tokenize, Tokens or Chat, without `length`, `pad` and `truncate`, since packs \
         have a length themselves",
    ))
}

/// Returns the layout of batches of packs of documents with these `outputs`, if `config` has packs.
///
/// # Errors
///
/// `Config` for outputs that a form does not take.
pub(super) fn layout_of(config: &LoaderConfig, outputs: &[Output]) -> Result<Option<PackLayout>> {
    let are_next = has_next_labels(config);
    let layout = config.pack().map(|pack| match pack {
        PackOptions::Packs(pack) => PackLayout::new(pack, outputs, are_next, config.batch_size as usize),
        PackOptions::TokenBatches(batch) => PackLayout::of_rows(batch, outputs, are_next),
    });
    layout.transpose()
}

/// True if the field of the ids has labels that the token before each predicts.
fn has_next_labels(config: &LoaderConfig) -> bool {
    matches!(config.fields.as_deref(), Some([(_, FieldSpec::Chat(_))]))
}

/// Tokens that fill-in-the-middle adds to the documents of `ids`, the field with this name.
///
/// # Errors
///
/// `Config` for arguments out of range.
pub(super) fn added_to((name, ids): (&str, &FieldSpec), config: &LoaderConfig) -> Result<Option<Arc<dyn AddedTokens>>> {
    let rearrangement = ids.rearrangement(name, config.augment_seed())?;
    Ok(rearrangement.map(|rearrangement| Arc::new(Marks(rearrangement)) as Arc<dyn AddedTokens>))
}

/// Tokens that mark the parts of documents that are rearranged.
#[derive(Debug)]
struct Marks(Rearrangement);

impl AddedTokens for Marks {
    fn added(&self, epoch: u64, stream: StreamId, draw: u64, tokens: u32) -> u32 {
        self.0.added(DrawKey { epoch, stream: stream.0, draw }, tokens.into())
    }

    fn argument(&self) -> String {
        self.0.argument()
    }
}

/// Packs of a loader.
pub(super) struct Packing {
    config: PackConfig,
    /// By stream.
    lengths: Vec<Arc<TokenLengths>>,
    threads: usize,
    kept: Mutex<KeptCounts>,
}

/// Numbers of packs that are known.
#[derive(Default)]
struct KeptCounts {
    counts: VecDeque<(EpochKey, PackCounts)>,
    /// Canonical nodes and seed of plans without a checkpoint, once there was one.
    own: Option<(u64, u64)>,
}

/// Epoch, canonical nodes and seed, on which packs depend besides the arguments.
type EpochKey = (u64, u64, u64);

fn key_of(resume: &Resume) -> EpochKey {
    (resume.epoch, resume.num_canonical_nodes, resume.shuffle_seed)
}

impl Packing {
    /// Packs of documents of these `lengths`, which `threads` threads count.
    pub(super) fn new(config: PackConfig, lengths: Vec<Arc<TokenLengths>>, threads: usize) -> Self {
        Self { config, lengths, threads, kept: Mutex::default() }
    }

    /// Plans the packs of `epoch`, or of its rest.
    pub(super) fn plan(
        &self,
        shape: &DataSetShape,
        order: &OrderConfig,
        world: World,
        epoch: u64,
        resume: Option<&Resume>,
    ) -> Result<PackPlan> {
        let known = {
            let kept = self.kept.lock();
            let key = match resume {
                Some(resume) => Some(key_of(&Resume { epoch: epoch.max(resume.epoch), ..*resume })),
                None => kept.own.map(|(nodes, seed)| (epoch, nodes, seed)),
            };
            key.and_then(|key| kept.of(key)).cloned()
        };
        let packing = (&self.config, &*self.lengths);
        let plan = PackPlan::new(shape, order, packing, world, epoch, resume, known, self.threads)?;
        let key = key_of(&plan.packs().state(0));
        let mut kept = self.kept.lock();
        if resume.is_none() {
            kept.own = Some((key.1, key.2));
        }
        kept.add(key, plan.counts().clone());
        Ok(plan)
    }

    /// The argument of checkpoints that must not change: its name and value.
    pub(super) fn argument(&self) -> (&'static str, String) {
        (PACKING, PackPlan::argument(&self.config, &self.lengths))
    }

    /// The numbers of packs of the epoch of a checkpoint, of `running` or kept ones, as text; `None` if they are not
    /// known or too many.
    pub(super) fn saved_counts(&self, at: &Resume, running: Option<&PackPlan>) -> Option<String> {
        let running = running.filter(|plan| key_of(&plan.packs().state(0)) == key_of(at)).map(PackPlan::counts);
        let bytes = running.map_or_else(
            || self.kept.lock().of(key_of(at)).map(PackCounts::to_bytes),
            |counts| Some(counts.to_bytes()),
        )?;
        (bytes.len() <= COUNTS_BYTES_MAX).then(|| BASE64_STANDARD.encode(bytes))
    }

    /// Keeps the numbers of packs of a checkpoint.
    ///
    /// # Errors
    ///
    /// `State` for a text that is damaged.
    pub(super) fn load_counts(&self, at: &Resume, text: &str) -> Result<()> {
        let damaged =
            || Error::new(ErrorKind::State, "`packs` of the checkpoint is damaged: remove it, which counts again");
        let bytes = BASE64_STANDARD.decode(text).map_err(|_| damaged())?;
        self.kept.lock().add(key_of(at), PackCounts::from_bytes(&bytes).map_err(|_| damaged())?);
        Ok(())
    }
}

impl KeptCounts {
    fn of(&self, key: EpochKey) -> Option<&PackCounts> {
        self.counts.iter().find(|(kept, _)| *kept == key).map(|(_, counts)| counts)
    }

    fn add(&mut self, key: EpochKey, counts: PackCounts) {
        self.counts.retain(|(kept, _)| *kept != key);
        self.counts.push_back((key, counts));
        let more = self.counts.len().saturating_sub(KEPT_MAX);
        self.counts.drain(..more);
    }
}
