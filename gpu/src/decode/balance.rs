//! How many of a group's pictures go to the engines that do nothing else, and how many to the device's ordinary cores.
//!
//! Both work at the same time, and a group is decoded when the slower one has ended. So each gets as many as it decodes while
//! the other works, by what the last groups took. The cores get none or many: few of them the library reads on the host. That
//! they are not worth it is asked again now and then, since pictures change, and what else the device does.

use std::ops::RangeInclusive;

/// Fewer pictures are no work for the cores: up to 50 of a batch, the library reads what is entropy-coded on the host, one
/// picture after the other, which is slower than engines and costs the loader's own CPU.
pub(super) const CORES_MIN: usize = 51;

/// The cores must end in so much of the time that the engines would need alone: they are the model's, too.
const WORTH: f64 = 0.95;

/// Groups for the engines alone until the cores are tried again: it doubles from the first to the last with every trial that
/// was not worth it.
const TRIAL_AFTER: RangeInclusive<u32> = 4..=64;

/// A group that takes so many times as long as others, or as little, says more of what else the device did.
const OUTLIER: f64 = 4.0;

/// What one kind of decoders did with its part of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) pictures: usize,
    pub(super) seconds: f64,
}

impl Part {
    /// Seconds of a picture in a full round, where `together` are decoded at the same time.
    fn each(self, together: usize) -> f64 {
        // Nothing is done in no time, and a share of two zeros is none.
        self.seconds.max(1e-9) / self.pictures.next_multiple_of(together) as f64
    }
}

/// The parts of a group, as far as they say what pictures take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Took {
    pub(super) engines: Option<Part>,
    pub(super) cores: Option<Part>,
}

/// The engines' share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Pictures that the engines decode at the same time.
    together: usize,
    /// Seconds of a picture, by whom; none before the first is measured.
    engines: Option<f64>,
    cores: Option<f64>,
    /// What the cores took before says nothing any more.
    is_trial: bool,
    /// Groups that the engines had alone since.
    alone: u32,
    trial_after: u32,
}

impl Share {
    /// For engines that decode `together` pictures at the same time.
    pub(super) fn new(together: usize) -> Self {
        let (engines, cores, trial_after) = (None, None, *TRIAL_AFTER.start());
        Self { together: together.max(1), engines, cores, is_trial: true, alone: 0, trial_after }
    }

    /// How many of `pictures` go to the engines: so many that none of them has a free place, if there are as many.
    pub(super) fn of(&mut self, pictures: usize) -> usize {
        if pictures <= CORES_MIN {
            return pictures;
        }
        let engines = pictures - self.of_cores(pictures).min(pictures - 1);
        if engines < self.together || engines == pictures { engines } else { engines - engines % self.together }
    }

    /// How many go to the cores.
    fn of_cores(&mut self, pictures: usize) -> usize {
        let all = pictures as f64;
        let (Some(engines), Some(cores)) = (self.engines, self.cores) else {
            return CORES_MIN.max(pictures / 2);
        };
        let even = (all * engines / (engines + cores)).round() as usize;
        let wanted = even.max(CORES_MIN);
        if wanted as f64 * cores < WORTH * all * engines {
            (self.alone, self.trial_after) = (0, *TRIAL_AFTER.start());
            return wanted;
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

    /// Takes in what a group took.
    pub(super) fn learn(&mut self, took: Took) {
        let mixed = |old: Option<f64>, new: f64| {
            Some(old.map_or(new, |old| (old + new.clamp(old / OUTLIER, old * OUTLIER)) / 2.0))
        };
        if let Some(part) = took.engines {
            self.engines = mixed(self.engines, part.each(self.together));
        }
        if let Some(part) = took.cores.filter(|part| part.pictures >= CORES_MIN) {
            self.cores = mixed(self.cores.filter(|_| !self.is_trial), part.each(1));
            self.is_trial = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one side takes for so many pictures.
    struct Speed {
        first: f64,
        each: f64,
    }

    impl Speed {
        fn part(&self, pictures: usize) -> Option<Part> {
            let seconds = self.first + self.each * pictures as f64;
            (pictures > 0).then_some(Part { pictures, seconds })
        }
    }

    /// Runs so many groups of `pictures`: what the engines got of the last ones.
    fn run(share: &mut Share, groups: usize, pictures: usize, engines: &Speed, cores: &Speed) -> Vec<usize> {
        let given = (0..groups).map(|_| {
            let given = share.of(pictures);
            share.learn(Took { engines: engines.part(given), cores: cores.part(pictures - given) });
            given
        });
        given.collect::<Vec<_>>().split_off(groups / 2)
    }

    const fn each(each: f64) -> Speed {
        Speed { first: 0.0, each }
    }

    #[test]
    fn the_share_moves_to_where_both_end_together() {
        for (engines, cores, expected) in
            [(1.0, 1.0, 128), (1.0, 3.0, 192), (3.0, 1.0, 64), (1.0, 2.0, 168), (100.0, 1.0, 3)]
        {
            for given in run(&mut Share::new(8), 40, 256, &each(engines), &each(cores)) {
                assert!(given.abs_diff(expected) <= 8, "{given} rather than {expected}");
            }
        }
    }

    #[test]
    fn cores_whose_time_hardly_depends_on_how_many_they_get_take_what_fits_into_it() {
        // They end with 256 - x when the engines end with x: at 100 + (256 - x) / 10 = x.
        let cores = Speed { first: 100.0, each: 0.1 };
        for given in run(&mut Share::new(1), 200, 256, &each(1.0), &cores) {
            assert!(given.abs_diff(114) <= 2, "{given}");
        }
    }

    #[test]
    fn slow_cores_get_nothing_but_are_tried_again() {
        let given = run(&mut Share::new(8), 400, 256, &each(1.0), &each(30.0));
        assert!(given.iter().all(|given| [200, 256].contains(given)), "{given:?}");
        let trials = given.iter().filter(|given| **given == 200).count();
        assert!((2..=4).contains(&trials), "{trials} of 200 groups");
    }

    #[test]
    fn cores_that_were_slow_once_come_back() {
        let mut share = Share::new(8);
        run(&mut share, 1, 256, &each(1.0), &each(500.0));
        assert_eq!(share.of(256), 256);
        for given in run(&mut share, 40, 256, &each(1.0), &each(1.0)) {
            assert!(given.abs_diff(128) <= 8, "{given}");
        }
    }

    #[test]
    fn a_round_of_engines_that_is_not_full_says_what_a_full_one_takes() {
        let mut share = Share::new(8);
        run(&mut share, 20, 256, &each(1.0), &each(1.0));
        // One picture takes as long as eight do.
        (0..9).for_each(|_| share.learn(Took { engines: Some(Part { pictures: 1, seconds: 8.0 }), cores: None }));
        assert!(share.of(256).abs_diff(128) <= 8);
    }

    #[test]
    fn one_slow_group_moves_little() {
        let mut share = Share::new(8);
        run(&mut share, 20, 256, &each(1.0), &each(1.0));
        share.learn(Took { engines: Some(Part { pictures: 128, seconds: 1e6 }), cores: None });
        assert!(share.of(256) >= 64);
        for given in run(&mut share, 20, 256, &each(1.0), &each(1.0)) {
            assert!(given.abs_diff(128) <= 8, "{given}");
        }
    }

    #[test]
    fn groups_that_are_too_small_for_the_cores_are_the_engines() {
        let mut share = Share::new(8);
        assert_eq!([1, 50, 51].map(|pictures| share.of(pictures)), [1, 50, 51]);
        for pictures in 52..300 {
            let given = share.of(pictures);
            assert!(given > 0 && pictures - given >= CORES_MIN, "{given} of {pictures}");
            assert!(given < 8 || given.is_multiple_of(8), "{given} of {pictures}");
        }
        // What cores did with few says nothing of many.
        share.learn(Took { engines: each(1.0).part(100), cores: each(99.0).part(50) });
        assert_eq!(share.of(256), 128);
    }
}
