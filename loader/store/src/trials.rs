//! Trials of more and of fewer parts in flight.
//!
//! Many servers limit the rate of each connection; S3 sends about 90 MB/s over one. Rate and latency then do not show
//! how many parts the network carries, so the number is tried out: half as many again, which stays if the rate rises,
//! and a third fewer, which stays if the rate does not fall. A trial takes a few rounds of parts. The pause before the
//! next one doubles each time that nothing is gained.
//!
//! The parts that rate and latency ask for are used at once, but at most half as many again as there were when the rate
//! last rose. If more parts have lowered the rate, the limit is the number at that rise. Where a server queues
//! requests, or is slower with more of them, each further part raises the latency, which would ask for more parts
//! without an end.
//!
//! If the rate stays below half of its earlier value, the network has changed, and the search begins again. Throttling
//! does not change its result: the limit rises to it again.

/// Rounds of a trial. The highest rate counts, as in the rounds before.
const ROUNDS: usize = 3;

/// Rounds before the first trial, and most rounds between two of them.
const PAUSE_FIRST: usize = 2;
const PAUSE_MAX: usize = 128;

/// Least rise of the rate for which more parts stay in flight. It is above the noise of the highest rates.
const RISE: f64 = 1.07;

/// Least share of the rate for which fewer parts stay in flight.
const KEPT: f64 = 0.97;

/// Returns the parts in flight after one step upwards from `parts`.
fn more(parts: usize) -> usize {
    parts + parts.div_ceil(2)
}

/// Round of parts, and the limit of their number.
pub(super) struct Round {
    /// Bytes per second.
    pub(super) rate: f64,
    /// Highest rate of the rounds before.
    pub(super) highest_before: f64,
    /// Parts in flight in this round.
    pub(super) limit: usize,
    /// Parts that fill the network by its rate and its latency.
    pub(super) filling: usize,
    /// Fewest and most parts that may be in flight.
    pub(super) least: usize,
    pub(super) most: usize,
}

/// Search for the number of parts in flight above which the rate does not rise.
pub(super) struct Trials {
    parts: usize,
    is_up: bool,
    /// Rounds until the next trial.
    wait: usize,
    /// Rounds between the last two trials.
    pause: usize,
    trial: Option<Trial>,
    /// Highest rate, and the parts in flight when it rose to it.
    risen: (f64, usize),
    /// Most parts that rate and latency may ask for.
    filling_max: usize,
    /// Last consecutive rounds with more parts and a lower rate than in `risen`.
    lower: usize,
}

struct Trial {
    parts: usize,
    rate_before: f64,
    highest: f64,
    rounds: usize,
}

impl Trials {
    /// Starts at `parts`.
    pub(super) fn new(parts: usize) -> Self {
        Self {
            parts,
            is_up: true,
            wait: PAUSE_FIRST,
            pause: PAUSE_FIRST,
            trial: None,
            risen: (0.0, parts),
            filling_max: more(parts),
            lower: 0,
        }
    }

    /// Records a round, and returns the parts that are to be in flight in the next one, which may be more than the
    /// most.
    pub(super) fn record(&mut self, round: &Round) -> usize {
        if round.rate.max(round.highest_before) < self.risen.0 / 2.0 {
            *self = Self::new(round.least);
            return self.parts;
        }
        if round.rate >= self.risen.0 * RISE {
            self.risen = (round.rate, round.limit);
            (self.filling_max, self.lower) = (more(round.limit), 0);
        } else if round.limit > self.risen.1 && round.rate < self.risen.0 * KEPT {
            self.lower += 1;
            if self.lower == ROUNDS {
                self.filling_max = self.risen.1;
            }
        } else {
            self.lower = 0;
        }
        match self.trial.take() {
            Some(trial) if trial.parts == round.limit => self.continued(trial, round),
            // Throttling has ended the trial, or rate and latency ask for more.
            Some(_) => self.wait = self.pause,
            None => self.wait = self.wait.saturating_sub(1),
        }
        let floor = self.floor(round);
        if self.trial.is_none() && self.wait == 0 && floor.max(self.parts) <= round.limit {
            self.begin(round);
        }
        match &self.trial {
            Some(trial) if self.is_up => trial.parts.max(floor),
            Some(trial) => trial.parts,
            None => self.parts.max(floor),
        }
    }

    /// Returns the parts that rate and latency ask for, as far as the rate has risen with them.
    fn floor(&self, round: &Round) -> usize {
        round.filling.min(self.filling_max).max(round.least)
    }

    fn continued(&mut self, mut trial: Trial, round: &Round) {
        trial.highest = trial.highest.max(round.rate);
        trial.rounds += 1;
        let needed = trial.rate_before * if self.is_up { RISE } else { KEPT };
        if trial.highest >= needed {
            self.parts = trial.parts;
            // The next trial may follow at once where more parts are a gain.
            self.wait = if self.is_up { 0 } else { self.pause };
        } else if trial.rounds < ROUNDS {
            self.trial = Some(trial);
        } else {
            self.is_up = !self.is_up;
            self.pause = (2 * self.pause).min(PAUSE_MAX);
            self.wait = self.pause;
        }
    }

    fn begin(&mut self, round: &Round) {
        let more = more(round.limit).min(round.most);
        let fewer = (2 * round.limit).div_ceil(3).max(self.floor(round));
        let (can_rise, can_fall) = (more > round.limit + round.limit / 4, fewer < round.limit - round.limit / 4);
        if !can_rise && !can_fall {
            return;
        }
        self.is_up = can_rise && (self.is_up || !can_fall);
        let parts = if self.is_up { more } else { fewer };
        let rate_before = round.highest_before.max(round.rate);
        self.trial = Some(Trial { parts, rate_before, highest: 0.0, rounds: 0 });
    }
}
