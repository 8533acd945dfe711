//! How many of a batch's pictures go to the engines that do nothing else, and how many to the device's ordinary cores.
//!
//! Both work at the same time, and a batch is decoded when the slower one has ended. So whoever ends last gets fewer of the
//! next batch: the share moves until both end together, whatever the pictures and whatever else the device does.

/// The share moves by this much.
const STEP: f64 = 1.0 / 32.0;

/// Neither side is ever without work: from nothing nothing is learnt.
const RANGE: std::ops::RangeInclusive<f64> = STEP..=1.0 - STEP;

/// Who ended first with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// The engines.
    Engines,
    /// The ordinary cores.
    Cores,
    /// Both had ended when somebody looked.
    Unknown,
}

/// The engines' share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    engines: f64,
    /// Pictures that the engines decode at the same time.
    together: usize,
}

impl Share {
    /// For engines that decode `together` pictures at the same time.
    pub(super) fn new(together: usize) -> Self {
        Self { engines: 0.5, together: together.max(1) }
    }

    /// How many of `pictures` go to the engines, so that none of them has a free place.
    pub(super) fn of(&self, pictures: usize) -> usize {
        let wanted = (pictures as f64 * self.engines).round() as usize;
        wanted.next_multiple_of(self.together).min(pictures)
    }

    /// Takes in who ended first.
    pub(super) fn learn(&mut self, first: First) {
        let moved = match first {
            First::Engines => self.engines + STEP,
            First::Cores => self.engines - STEP,
            First::Unknown => return,
        };
        self.engines = moved.clamp(*RANGE.start(), *RANGE.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of 256 pictures, of which engines and cores decode so many in the same time.
    fn settled(engines: f64, cores: f64) -> usize {
        let mut share = Share::new(8);
        for _ in 0..100 {
            let given = share.of(256);
            let (by_engines, by_cores) = (given as f64 / engines, (256 - given) as f64 / cores);
            share.learn(if by_engines < by_cores { First::Engines } else { First::Cores });
        }
        share.of(256)
    }

    #[test]
    fn the_share_moves_to_where_both_end_together() {
        assert!(settled(10.0, 10.0).abs_diff(128) <= 8);
        assert!(settled(30.0, 10.0).abs_diff(192) <= 8);
        assert!(settled(10.0, 70.0).abs_diff(32) <= 8);
    }

    #[test]
    fn neither_side_is_ever_without_work() {
        assert_eq!(settled(1000.0, 1.0), 248);
        assert_eq!(settled(1.0, 1000.0), 8);
    }

    #[test]
    fn no_place_of_the_engines_stays_free() {
        let share = Share::new(7);
        assert_eq!([1, 6, 14, 15, 100].map(|pictures| share.of(pictures)), [1, 6, 7, 14, 56]);
    }

    #[test]
    fn what_nobody_saw_teaches_nothing() {
        let mut share = Share::new(1);
        let before = share.of(1000);
        share.learn(First::Unknown);
        assert_eq!(share.of(1000), before);
    }
}
