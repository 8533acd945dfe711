//! Split of a group's pictures between the JPEG engines and the cores.
//!
//! Both work at the same time, and a group is decoded when the slower one has finished. So each gets as many pictures
//! as it decodes in the same time, estimated from earlier groups. The cores get none or at least [`CORES_MIN`],
//! because nvJPEG decodes the entropy-coded data of a smaller batch on the host. When the cores are not worth it, they
//! are tried again from time to time, since the pictures change and so does the remaining work on the device.

use std::ops::RangeInclusive;

/// Least number of pictures for the cores. Up to 50 per batch, nvJPEG reads the entropy-coded data on the host, one
/// picture after picture, which is slower than the engines and uses the loader's CPUs.
pub(super) const CORES_MIN: usize = 51;

/// Fraction of the engines' own time for a group below which a split is worth it: the model needs the cores, too.
const WORTH: f64 = 0.95;

/// Groups that the engines decode alone before the cores are tried again. Doubles with each trial that was not worth
/// it.
const TRIAL_AFTER: RangeInclusive<u32> = 4..=64;

/// Factor by which a measured time may differ from the estimate. A larger difference has different causes on the device
/// and is clamped.
const OUTLIER: f64 = 4.0;

/// Time of one backend for its part of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PartTime {
    pub(super) pictures: usize,
    pub(super) seconds: f64,
}

impl PartTime {
    /// Returns the seconds per picture of a full round, in which `parallel` pictures are decoded at the same time.
    fn per_picture(self, parallel: usize) -> f64 {
        // Two times of zero have no ratio.
        self.seconds.max(1e-9) / self.pictures.next_multiple_of(parallel) as f64
    }
}

/// Measured times of the parts of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct GroupTimes {
    pub(super) engines: Option<PartTime>,
    pub(super) cores: Option<PartTime>,
}

/// Estimate of the engines' share of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct EngineShare {
    /// Pictures that the engines decode at the same time.
    parallel: usize,
    /// Estimated seconds per picture; `None` before the first measurement.
    engines: Option<f64>,
    cores: Option<f64>,
    /// True if the next measurement of the cores replaces their estimate.
    is_trial: bool,
    /// Groups since then that the engines decoded alone.
    alone: u32,
    trial_after: u32,
}

impl EngineShare {
    /// Creates an estimate for engines that decode `parallel` pictures at the same time.
    pub(super) fn new(parallel: usize) -> Self {
        let (engines, cores, trial_after) = (None, None, *TRIAL_AFTER.start());
        Self { parallel: parallel.max(1), engines, cores, is_trial: true, alone: 0, trial_after }
    }

    /// Returns how many of `pictures` the engines get: full rounds of the engines, if there are enough pictures.
    pub(super) fn engine_pictures(&mut self, pictures: usize) -> usize {
        if pictures <= CORES_MIN {
            return pictures;
        }
        let engines = pictures - self.core_pictures(pictures).min(pictures - 1);
        if engines < self.parallel || engines == pictures { engines } else { engines - engines % self.parallel }
    }

    /// Returns how many pictures the cores get.
    fn core_pictures(&mut self, pictures: usize) -> usize {
        let all = pictures as f64;
        let (Some(engines), Some(cores)) = (self.engines, self.cores) else {
            return CORES_MIN.max(pictures / 2);
        };
        let even = (all * engines / (engines + cores)).round() as usize;
        let count = even.max(CORES_MIN);
        if count as f64 * cores < WORTH * all * engines {
            (self.alone, self.trial_after) = (0, *TRIAL_AFTER.start());
            return count;
        }
        self.alone += 1;
        if self.alone <= self.trial_after {
            return 0;
        }
        self.alone = 0;
        self.trial_after = (2 * self.trial_after).min(*TRIAL_AFTER.end());
        self.is_trial = true;
        CORES_MIN
    }

    /// Updates the estimates with the times of a group.
    pub(super) fn learn(&mut self, times: GroupTimes) {
        let mixed = |old: Option<f64>, new: f64| {
            Some(old.map_or(new, |old| (old + new.clamp(old / OUTLIER, old * OUTLIER)) / 2.0))
        };
        if let Some(part) = times.engines {
            self.engines = mixed(self.engines, part.per_picture(self.parallel));
        }
        if let Some(part) = times.cores.filter(|part| part.pictures >= CORES_MIN) {
            self.cores = mixed(self.cores.filter(|_| !self.is_trial), part.per_picture(1));
            self.is_trial = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linear model of a backend's time.
    struct Speed {
        first: f64,
        each: f64,
    }

    impl Speed {
        fn part(&self, pictures: usize) -> Option<PartTime> {
            let seconds = self.first + self.each * pictures as f64;
            (pictures > 0).then_some(PartTime { pictures, seconds })
        }
    }

    /// Runs groups of `pictures` pictures and returns the engines' shares of the second half of the groups.
    fn run(share: &mut EngineShare, groups: usize, pictures: usize, engines: &Speed, cores: &Speed) -> Vec<usize> {
        let given = (0..groups).map(|_| {
            let given = share.engine_pictures(pictures);
            share.learn(GroupTimes { engines: engines.part(given), cores: cores.part(pictures - given) });
            given
        });
        given.collect::<Vec<_>>().split_off(groups / 2)
    }

    const fn each(each: f64) -> Speed {
        Speed { first: 0.0, each }
    }

    #[test]
    fn the_share_converges_to_equal_times() {
        for (engines, cores, expected) in
            [(1.0, 1.0, 128), (1.0, 3.0, 192), (3.0, 1.0, 64), (1.0, 2.0, 168), (100.0, 1.0, 3)]
        {
            for given in run(&mut EngineShare::new(8), 40, 256, &each(engines), &each(cores)) {
                assert!(given.abs_diff(expected) <= 8, "{given} rather than {expected}");
            }
        }
    }

    #[test]
    fn cores_with_a_nearly_constant_time_get_what_fits_into_it() {
        // Equal times for x pictures on the engines: 100 + (256 - x) / 10 = x.
        let cores = Speed { first: 100.0, each: 0.1 };
        for given in run(&mut EngineShare::new(1), 200, 256, &each(1.0), &cores) {
            assert!(given.abs_diff(114) <= 2, "{given}");
        }
    }

    #[test]
    fn slow_cores_get_nothing_but_are_tried_again() {
        let given = run(&mut EngineShare::new(8), 400, 256, &each(1.0), &each(30.0));
        assert!(given.iter().all(|given| [200, 256].contains(given)), "{given:?}");
        let trials = given.iter().filter(|given| **given == 200).count();
        assert!((2..=4).contains(&trials), "{trials} of 200 groups");
    }

    #[test]
    fn cores_that_were_slow_once_are_used_again() {
        let mut share = EngineShare::new(8);
        run(&mut share, 1, 256, &each(1.0), &each(500.0));
        assert_eq!(share.engine_pictures(256), 256);
        for given in run(&mut share, 40, 256, &each(1.0), &each(1.0)) {
            assert!(given.abs_diff(128) <= 8, "{given}");
        }
    }

    #[test]
    fn a_partial_round_of_the_engines_is_measured_as_a_full_one() {
        let mut share = EngineShare::new(8);
        run(&mut share, 20, 256, &each(1.0), &each(1.0));
        // One picture takes as long as eight.
        (0..9).for_each(|_| {
            share.learn(GroupTimes { engines: Some(PartTime { pictures: 1, seconds: 8.0 }), cores: None })
        });
        assert!(share.engine_pictures(256).abs_diff(128) <= 8);
    }

    #[test]
    fn one_slow_group_changes_little() {
        let mut share = EngineShare::new(8);
        run(&mut share, 20, 256, &each(1.0), &each(1.0));
        share.learn(GroupTimes { engines: Some(PartTime { pictures: 128, seconds: 1e6 }), cores: None });
        assert!(share.engine_pictures(256) >= 64);
        for given in run(&mut share, 20, 256, &each(1.0), &each(1.0)) {
            assert!(given.abs_diff(128) <= 8, "{given}");
        }
    }

    #[test]
    fn groups_that_are_too_small_for_the_cores_go_to_the_engines() {
        let mut share = EngineShare::new(8);
        assert_eq!([1, 50, 51].map(|pictures| share.engine_pictures(pictures)), [1, 50, 51]);
        for pictures in 52..300 {
            let given = share.engine_pictures(pictures);
            assert!(given > 0 && pictures - given >= CORES_MIN, "{given} of {pictures}");
            assert!(given < 8 || given.is_multiple_of(8), "{given} of {pictures}");
        }
        // The cores' time for a few pictures is no measure for many.
        share.learn(GroupTimes { engines: each(1.0).part(100), cores: each(99.0).part(50) });
        assert_eq!(share.engine_pictures(256), 128);
    }
}
