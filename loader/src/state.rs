//! Checkpoints: a position in an epoch, in the reference's format with an additional part.
//!
//! The position counts rows of the plan, skipped samples included, so that all ranks agree on it.

use crate::config::read;
use crate::error::{Error, ErrorKind, Result};
use crate::order::{BUCKETS, PACKING, REPEAT_AUGMENT, Resume, SAMPLE_WEIGHTS};
use crate::session::SavedState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the `forebay` part. It covers the generator of random augmentation as well.
pub const STATE_VERSION: u32 = 1;

/// Most bytes of a checkpoint with numbers of packs, without the steps that a run leaves out. 4 kB are promised, also
/// with the spaces that a program adds.
const BYTES_MAX: usize = 3900;

/// Name in [`ForebayState::plan`] of the samples that are kept; absent if all are.
pub(crate) const SELECTION: &str = "selection";

/// Names in [`ForebayState::plan`] that are absent without the argument, with the words for that.
const OPTIONAL: [(&str, &str); 5] =
    [(SELECTION, "all samples"), (REPEAT_AUGMENT, "1"), (SAMPLE_WEIGHTS, "none"), (BUCKETS, "none"), (PACKING, "none")];

/// Checkpoint. The first five keys are the reference's, which ignores the rest.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LoaderState {
    /// The current epoch, or the next one if none is running.
    pub epoch: u64,
    /// Plan positions delivered in that epoch, all ranks together.
    pub sample_in_epoch: u64,
    /// Canonical nodes of the order.
    pub num_canonical_nodes: u64,
    /// Seed of the order.
    pub shuffle_seed: u64,
    /// Nodes of the run that began the epoch.
    pub initial_physical_nodes: Option<u64>,
    /// The part that only this loader reads; absent in the reference's checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forebay: Option<ForebayState>,
}

/// Arguments that order and augmentation depend on, beyond the reference's keys.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ForebayState {
    /// [`STATE_VERSION`] of the writer.
    pub version: u32,
    /// Rows per device.
    pub batch_size: u64,
    /// Version of the generator of random augmentation.
    pub draws_version: u32,
    /// Seed of random augmentation.
    pub augment_seed: u64,
    /// Steps that the run leaves out.
    #[serde(default, skip_serializing_if = "SkippedSteps::is_empty")]
    pub skipped: SkippedSteps,
    /// Numbers of packs of the epoch, as base64; absent if documents are not packed, or are counted again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packs: Option<String>,
    /// First step of the epoch; absent if it is not known, or is a product: documents are not packed, or it is epoch 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_step: Option<FirstStep>,
    /// Arguments that determine the order, each as a short text or a hash.
    pub plan: BTreeMap<String, String>,
    /// Descriptions of the arguments in `plan` that are hashes, for messages. Empty in older checkpoints.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub described: BTreeMap<String, String>,
}

/// First step of an epoch.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct FirstStep {
    /// Its number.
    pub step: u64,
    /// Packs of a step on all ranks, on which the number depends.
    pub rows: u64,
    /// True if a last step that is not full is left out.
    pub drop_last: bool,
}

/// Steps that a run leaves out on all ranks.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SkippedSteps {
    /// Numbers of the steps, ascending.
    pub steps: Vec<u64>,
    /// Samples of a step on all ranks, on which the numbers depend.
    pub rows: u64,
}

impl SkippedSteps {
    /// True if no step is left out.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl ForebayState {
    /// The value of argument `name` in `plan` in words.
    fn describe(&self, name: &str) -> &str {
        let value = self.described.get(name).or_else(|| self.plan.get(name));
        let without = OPTIONAL.iter().find(|(optional, _)| *optional == name).map_or("absent", |(_, words)| words);
        value.map_or(without, String::as_str)
    }
}

impl SavedState for LoaderState {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn sample(&self) -> u64 {
        self.sample_in_epoch
    }

    fn at(self, epoch: u64, sample: u64) -> Self {
        let mut at = Self { epoch, sample_in_epoch: sample, ..self };
        if let Some(forebay) = at.forebay.as_mut().filter(|_| epoch != self.epoch) {
            // They belong to one epoch.
            (forebay.packs, forebay.first_step) = (None, None);
        }
        at
    }

    fn has_skipped_steps(&self) -> bool {
        self.forebay.as_ref().is_some_and(|forebay| !forebay.skipped.is_empty())
    }
}

impl LoaderState {
    /// The checkpoint at `position`. It has no numbers of packs if it is too long with them.
    pub(crate) fn new(position: Resume, forebay: ForebayState) -> Self {
        let skipped = forebay.skipped.clone();
        let mut state = Self {
            epoch: position.epoch,
            sample_in_epoch: position.sample_in_epoch,
            num_canonical_nodes: position.num_canonical_nodes,
            shuffle_seed: position.shuffle_seed,
            initial_physical_nodes: position.initial_physical_nodes,
            forebay: Some(ForebayState { skipped: SkippedSteps::default(), ..forebay }),
        };
        let is_long = |packs: &String| packs.len() > BYTES_MAX / 2 && state.to_json().len() > BYTES_MAX;
        let is_long = state.forebay.as_ref().and_then(|forebay| forebay.packs.as_ref()).is_some_and(is_long);
        if let Some(forebay) = &mut state.forebay {
            forebay.packs.take_if(|_| is_long);
            forebay.skipped = skipped;
        }
        state
    }

    /// Parses the JSON of a checkpoint, also of the reference's.
    ///
    /// # Errors
    ///
    /// `State`, naming the key.
    pub fn from_json(text: &str) -> Result<Self> {
        read(text, "the checkpoint of the loader").map_err(|e| e.of_kind(ErrorKind::State))
    }

    /// Returns the checkpoint as JSON; under 1 kB, with packs under 4 kB.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain maps and numbers")
    }

    /// Returns the keys that the order needs.
    pub(crate) fn resume(&self) -> Resume {
        Resume {
            epoch: self.epoch,
            sample_in_epoch: self.sample_in_epoch,
            num_canonical_nodes: self.num_canonical_nodes,
            shuffle_seed: self.shuffle_seed,
            initial_physical_nodes: self.initial_physical_nodes,
        }
    }

    /// Compares the checkpoint with the loader that resumes from it.
    ///
    /// # Errors
    ///
    /// `State`, listing every argument that differs.
    pub(crate) fn check(&self, now: &ForebayState) -> Result<()> {
        if let Some(then) = self.forebay.as_ref().filter(|then| then.version > STATE_VERSION) {
            return Err(Error::new(ErrorKind::State, "the checkpoint was written by a newer forebay: upgrade")
                .with("version", then.version));
        }
        match self.differences(now) {
            None => Ok(()),
            Some(differences) => {
                let message = format!(
                    "the checkpoint belongs to a different plan: {differences}; build the loader with the same \
                     arguments, or load with strict=False"
                );
                Err(Error::new(ErrorKind::State, message))
            }
        }
    }

    /// Returns every argument that differs from `now`, with both values, or `None` if there is none.
    pub(crate) fn differences(&self, now: &ForebayState) -> Option<String> {
        let then = self.forebay.as_ref()?;
        let mut differing = Vec::new();
        for (name, was) in &then.plan {
            if now.plan.get(name) == Some(was) {
                continue;
            }
            let is = now.plan.get(name).map_or("absent", String::as_str);
            let (was_described, is_described) = (then.describe(name), now.describe(name));
            differing.push(if was_described != is_described {
                format!("{name} was {was_described} and is {is_described}")
            } else {
                // Descriptions may be the same for different values.
                format!("{name} was {was_described} (hash {was}) and is {is_described} (hash {is})")
            });
        }
        for (name, without) in OPTIONAL {
            if let (None, Some(_)) = (then.plan.get(name), now.plan.get(name)) {
                differing.push(format!("{name} was {without} and is {}", now.describe(name)));
            }
        }
        let mut compare = |name: &str, then: &str, now: &str| {
            if then != now {
                differing.push(format!("{name} was {then} and is {now}"));
            }
        };
        compare(
            "augment_seed (seed unless it is given)",
            &then.augment_seed.to_string(),
            &now.augment_seed.to_string(),
        );
        compare("the augmentation's generator", &then.draws_version.to_string(), &now.draws_version.to_string());
        if differing.is_empty() {
            return None;
        }
        let is_copy = differing.iter().any(|difference| difference.starts_with("index was "));
        let why = if is_copy {
            " (the data's index.json has changed; a copy with row indexes has the same samples)"
        } else {
            ""
        };
        Some(format!("{}{why}", differing.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forebay_state() -> ForebayState {
        let plan = [("shuffle".to_owned(), "true".to_owned())].into();
        let described = BTreeMap::new();
        let skipped = SkippedSteps::default();
        ForebayState {
            version: STATE_VERSION,
            batch_size: 4,
            draws_version: 1,
            augment_seed: 9,
            skipped,
            packs: None,
            first_step: None,
            plan,
            described,
        }
    }

    #[test]
    fn arguments_that_are_hashes_are_described_in_words() {
        let state = |hash: &str, words: Option<&str>| ForebayState {
            plan: [("weights".to_owned(), hash.to_owned())].into(),
            described: words.map(|words| ("weights".to_owned(), words.to_owned())).into_iter().collect(),
            ..forebay_state()
        };
        let position = Resume {
            epoch: 0,
            sample_in_epoch: 0,
            num_canonical_nodes: 1,
            shuffle_seed: 1,
            initial_physical_nodes: None,
        };
        let differences = |then, now: &ForebayState| {
            let then = LoaderState::from_json(&LoaderState::new(position, then).to_json()).expect("a checkpoint");
            then.differences(now)
        };
        let now = state("b", Some("repeat 2, 1"));
        assert_eq!(
            differences(state("a", Some("repeat 1, 1")), &now).expect("differs"),
            "weights was repeat 1, 1 and is repeat 2, 1"
        );
        // The checkpoint is older than descriptions, or both are cut at the same length.
        assert_eq!(differences(state("a", None), &now).expect("differs"), "weights was a and is repeat 2, 1");
        assert_eq!(
            differences(state("a", Some("repeat 2, 1")), &now).expect("differs"),
            "weights was repeat 2, 1 (hash a) and is repeat 2, 1 (hash b)"
        );
        assert_eq!(differences(state("b", None), &now), None);
    }

    #[test]
    fn a_checkpoint_has_numbers_of_packs_as_long_as_it_is_short() {
        let position = Resume {
            epoch: 0,
            sample_in_epoch: 0,
            num_canonical_nodes: 1,
            shuffle_seed: 1,
            initial_physical_nodes: None,
        };
        let packs = |packs: usize, words: usize| {
            let described = [("weights".to_owned(), "w".repeat(words))].into();
            let skipped = SkippedSteps { steps: (0..5000).collect(), rows: 4 };
            let state = ForebayState { packs: Some("A".repeat(packs)), described, skipped, ..forebay_state() };
            let state = LoaderState::new(position, state).forebay.expect("its own part");
            assert_eq!(state.skipped.steps.len(), 5000);
            state.packs.map(|packs| packs.len())
        };
        assert_eq!((packs(2900, 100), packs(2900, 900), packs(12, 9000)), (Some(2900), None, Some(12)));
    }

    #[test]
    fn a_checkpoint_of_the_reference_is_accepted() {
        let text = r#"{"epoch": 3, "sample_in_epoch": 128, "num_canonical_nodes": 2, "shuffle_seed": 9176, "initial_physical_nodes": null}"#;
        let state = LoaderState::from_json(text).expect("a checkpoint");
        assert_eq!((state.epoch, state.sample_in_epoch, state.initial_physical_nodes), (3, 128, None));
        state.check(&forebay_state()).expect("nothing to compare");
        let e = LoaderState::from_json(&text.replace("128", "-1")).expect_err("negative");
        assert_eq!(e.kind(), ErrorKind::State);
        assert!(e.to_string().contains("sample_in_epoch: "), "{e}");
    }

    #[test]
    fn every_argument_that_differs_is_listed() {
        let mut state = LoaderState::from_json(
            r#"{"epoch": 0, "sample_in_epoch": 0, "num_canonical_nodes": 1, "shuffle_seed": 1, "initial_physical_nodes": 1}"#,
        )
        .expect("good");
        state.forebay = Some(forebay_state());
        assert_eq!(LoaderState::from_json(&state.to_json()).expect("own"), state);
        let now = ForebayState {
            augment_seed: 8,
            plan: [("shuffle".to_owned(), "false".to_owned())].into(),
            ..forebay_state()
        };
        let message = state.check(&now).expect_err("differs").to_string();
        assert!(
            message.contains("shuffle was true and is false")
                && message.contains("augment_seed (seed unless it is given) was 9")
                && !message.contains("row indexes"),
            "{message}"
        );
        let [was, is] = ["a", "b"].map(|digest| [("index".to_owned(), digest.to_owned())].into());
        state.forebay = Some(ForebayState { plan: was, ..forebay_state() });
        let message =
            state.check(&ForebayState { plan: is, ..forebay_state() }).expect_err("different data").to_string();
        assert!(message.contains("index was a and is b (the data's index.json has changed;"), "{message}");
        state.forebay = Some(forebay_state());
        state.check(&forebay_state()).expect("same");
    }
}
