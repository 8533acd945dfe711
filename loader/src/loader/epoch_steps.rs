//! Numbers of steps of the epochs that are known. Epochs of packs differ in them, and a number that is not known needs
//! a plan of its epoch.

use crate::order::Resume;
use std::collections::BTreeMap;

/// Epochs with a known number at most.
const EPOCHS_MAX: usize = 1 << 16;

/// Arguments that a checkpoint gives to the orders of all epochs of a run: canonical nodes, seed, and the nodes of the
/// first run. `None`: the loader's own.
type RunKey = Option<(u64, u64, Option<u64>)>;

fn key_of(resume: Option<&Resume>) -> RunKey {
    resume.map(|r| (r.num_canonical_nodes, r.shuffle_seed, r.initial_physical_nodes))
}

/// Numbers of steps of epochs.
#[derive(Debug, Default)]
pub(super) struct EpochSteps {
    steps: BTreeMap<(RunKey, u64), u64>,
    /// Epoch of a checkpoint, and the number of its first step.
    start: Option<(RunKey, (u64, u64))>,
}

impl EpochSteps {
    /// Steps of `epoch` in the run of `resume`, if they are known.
    pub(super) fn of(&self, resume: Option<&Resume>, epoch: u64) -> Option<u64> {
        self.steps.get(&(key_of(resume), epoch)).copied()
    }

    /// Adds the number of an epoch.
    pub(super) fn add(&mut self, resume: Option<&Resume>, epoch: u64, steps: u64) {
        if self.steps.len() >= EPOCHS_MAX {
            self.steps.pop_first();
        }
        self.steps.insert((key_of(resume), epoch), steps);
    }

    /// Sets the number of the first step of the epoch of a checkpoint.
    pub(super) fn set_start(&mut self, at: &Resume, step: u64) {
        self.start = Some((key_of(Some(at)), (at.epoch, step)));
    }

    /// Returns an epoch with a known first step, and that step: the checkpoint's if `is_before`, else the first epoch.
    pub(super) fn start(&self, resume: Option<&Resume>, is_before: impl Fn(u64, u64) -> bool) -> (u64, u64) {
        let of_run = self.start.filter(|(run, (epoch, step))| *run == key_of(resume) && is_before(*epoch, *step));
        of_run.map_or((0, 0), |(_, start)| start)
    }

    /// Returns the number of the first step of the epoch of `at`, if all earlier epochs are known.
    pub(super) fn known_first(&self, at: &Resume) -> Option<u64> {
        let (epoch, first) = self.start(Some(at), |epoch, _| epoch <= at.epoch);
        (epoch..at.epoch).try_fold(first, |first, before| Some(first + self.of(Some(at), before)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_of_an_epoch_follows_from_the_earlier_ones_or_from_a_checkpoint() {
        let at = |epoch, shuffle_seed| Resume {
            epoch,
            sample_in_epoch: 9,
            num_canonical_nodes: 2,
            shuffle_seed,
            initial_physical_nodes: None,
        };
        let mut steps = EpochSteps::default();
        assert_eq!((steps.known_first(&at(0, 1)), steps.known_first(&at(1, 1))), (Some(0), None));
        steps.add(Some(&at(5, 1)), 0, 10);
        steps.add(Some(&at(0, 1)), 1, 11);
        assert_eq!(
            (steps.of(Some(&at(7, 1)), 1), steps.of(None, 1), steps.of(Some(&at(0, 2)), 1)),
            (Some(11), None, None)
        );
        assert_eq!((steps.known_first(&at(2, 1)), steps.known_first(&at(3, 1))), (Some(21), None));
        steps.set_start(&at(7, 1), 80);
        steps.add(Some(&at(7, 1)), 7, 12);
        assert_eq!((steps.known_first(&at(8, 1)), steps.known_first(&at(6, 1))), (Some(92), None));
        assert_eq!(steps.known_first(&at(8, 2)), None, "a different seed has a different order");
        assert_eq!(steps.start(Some(&at(0, 1)), |_, step| step <= 79), (0, 0));
        assert_eq!(steps.start(Some(&at(0, 1)), |_, step| step <= 80), (7, 80));
    }
}
