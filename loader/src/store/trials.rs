//! Trials of more and of fewer parts in flight.
//!
//! Many servers limit the rate of each connection; S3 sends about 90 MB/s over one. Rate and latency then do not show how
//! many parts the network carries, so the number is tried out: half as many again, which stays if the rate rises, and a
//! third fewer, which stays if the rate does not fall. A trial takes a few rounds of parts. The pause before the next one
//! doubles each time that nothing is gained.

/// Rounds of a trial. The highest rate counts, as it does of the rounds before.
const ROUNDS: usize = 3;

/// Rounds before the first trial, and most rounds between two of them.
const PAUSE_FIRST: usize = 2;
const PAUSE_MAX: usize = 128;

/// Least rise of the rate for which more parts stay in flight. It is above the noise of the highest rates.
const RISE: f64 = 1.07;

/// Least share of the rate for which fewer parts stay in flight.
const KEPT: f64 = 0.97;

/// Round of parts, and what limits their number.
pub(super) struct Round {
    /// Bytes per second.
    pub(super) rate: f64,
    /// Highest rate of the rounds before.
    pub(super) highest_before: f64,
    /// Parts in flight in this round.
    pub(super) limit: usize,
    /// Parts that have to be in flight in any case.
    pub(super) floor: usize,
    /// Most parts that may be in flight.
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
        Self { parts, is_up: true, wait: PAUSE_FIRST, pause: PAUSE_FIRST, trial: None }
    }

    /// Records a round, and returns the parts that are to be in flight in the next one unless the floor is higher.
    pub(super) fn record(&mut self, round: &Round) -> usize {
        self.parts = self.parts.min(round.most);
        match self.trial.take() {
            Some(trial) if trial.parts == round.limit => self.continued(trial, round),
            // Throttling or a higher floor has ended the trial.
            Some(_) => self.wait = self.pause,
            None => self.wait = self.wait.saturating_sub(1),
        }
        if self.trial.is_none() && self.wait == 0 && round.floor <= round.limit {
            self.begin(round);
        }
        self.trial.as_ref().map_or(self.parts, |trial| trial.parts)
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
        let more = (round.limit + round.limit.div_ceil(2)).min(round.most);
        let fewer = (2 * round.limit).div_ceil(3).max(round.floor);
        let (can_rise, can_fall) = (more > round.limit, fewer < round.limit - round.limit / 4);
        if !can_rise && !can_fall {
            return;
        }
        self.is_up = can_rise && (self.is_up || !can_fall);
        let parts = if self.is_up { more } else { fewer };
        let rate_before = round.highest_before.max(round.rate);
        self.trial = Some(Trial { parts, rate_before, highest: 0.0, rounds: 0 });
    }
}
