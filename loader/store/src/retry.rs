//! Waits between attempts, and their log.

use super::config::StoreConfig;
use forebay_core::sync::Mutex;
use http::header::{self, HeaderMap};
use std::time::Duration;

/// Seedable random generator (SplitMix64), good enough to spread clients.
#[derive(Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number that is uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Returns the wait after `failed` attempts (at least 1). It is drawn from the upper half of a bound that doubles with
/// every attempt, so that ranks that failed together do not retry together. A `requested` wait is before the drawn one:
/// a server requests the same of all ranks.
pub(crate) fn wait(config: &StoreConfig, failed: u32, requested: Option<Duration>, draws: &mut Draws) -> Duration {
    let doublings = failed.saturating_sub(1).min(20);
    let bound = config.backoff_first.saturating_mul(1 << doublings).min(config.backoff_max);
    let drawn = bound.mul_f64(0.5 + 0.5 * draws.unit());
    drawn.saturating_add(requested.unwrap_or_default()).min(config.backoff_max)
}

/// Delay of a request from which it is a warning: a user may wonder why a program waits.
const LATE: Duration = Duration::from_secs(3);

/// Shortest time between two warnings: many requests fail together.
const WARNING_EVERY: Duration = Duration::from_secs(10);

/// Level of the log lines about failed attempts.
#[derive(Debug, Default)]
pub(crate) struct RetryLog {
    /// Time of the last warning.
    last: Mutex<Option<Duration>>,
}

impl RetryLog {
    /// Returns the level for an attempt that has failed at `now`. `delay` is the time from the first failure of its
    /// request to the next attempt.
    pub(crate) fn level(&self, now: Duration, delay: Duration) -> log::Level {
        if delay < LATE {
            return log::Level::Info;
        }
        let mut last = self.last.lock();
        if last.is_some_and(|last| now.saturating_sub(last) < WARNING_EVERY) {
            return log::Level::Info;
        }
        *last = Some(now);
        log::Level::Warn
    }
}

/// Returns the pause that `Retry-After` requests: a number of seconds, or a time, which is compared with the response's
/// own `Date`, so that clocks need not be synchronised. Without it, the time until the end of a used-up `RateLimit`.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok()).map(str::trim);
    let Some(value) = text(header::RETRY_AFTER) else {
        return text(header::HeaderName::from_static("ratelimit")).and_then(rate_limit_end);
    };
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let time = |text| httpdate::parse_http_date(text).ok();
    let (until, now) = (time(value)?, time(text(header::DATE)?)?);
    Some(until.duration_since(now).unwrap_or_default())
}

/// Parses the time until a limit ends, if nothing of it is left: `"resolvers";r=0;t=55`, in seconds.
fn rate_limit_end(text: &str) -> Option<Duration> {
    text.split(',').find_map(|limit| {
        let parameter =
            |name| limit.split(';').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=')?.parse().ok());
        let (remaining, seconds): (Option<u64>, Option<u64>) = (parameter("r"), parameter("t"));
        seconds.filter(|_| remaining == Some(0)).map(Duration::from_secs)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_the_bound_and_repeat_for_a_seed() {
        let config = StoreConfig::default();
        let waits = |seed| {
            let mut draws = Draws::new(seed);
            (1..10).map(|n| wait(&config, n, None, &mut draws)).collect::<Vec<_>>()
        };
        let bounds: Vec<_> = [1, 2, 4, 8, 16, 30, 30, 30, 30].map(Duration::from_secs).into();
        for (wait, bound) in waits(7).iter().zip(&bounds) {
            assert!(wait <= bound && *wait >= *bound / 2, "{wait:?} of {bound:?}");
        }
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8));
    }

    #[test]
    fn a_requested_pause_is_kept_up_to_the_bound_and_ends_at_a_different_time_for_each_rank() {
        let config = StoreConfig::default();
        let mut draws = Draws::new(1);
        let requested = Duration::from_secs(12);
        let waits = [1, 2].map(|seed| wait(&config, 1, Some(requested), &mut Draws::new(seed)));
        assert!(waits.iter().all(|wait| (requested..requested + config.backoff_first).contains(wait)), "{waits:?}");
        assert_ne!(waits[0], waits[1]);
        assert_eq!(wait(&config, 1, Some(Duration::from_secs(9999)), &mut draws), config.backoff_max);
    }

    #[test]
    fn a_request_that_is_late_is_a_warning_and_many_of_them_are_one() {
        let log = RetryLog::default();
        let level = |now, delay| log.level(Duration::from_secs(now), Duration::from_secs(delay));
        assert_eq!(level(100, 2), log::Level::Info, "the next attempt is soon");
        assert_eq!(level(101, 3), log::Level::Warn);
        assert_eq!(level(101, 3), log::Level::Info, "a new request");
        assert_eq!(level(110, 20), log::Level::Info);
        assert_eq!(level(111, 20), log::Level::Warn);
        assert_eq!(level(160, 1), log::Level::Info, "the first failure of a new request");
    }

    #[test]
    fn a_pause_is_requested_in_seconds_or_until_a_time_of_the_server() {
        let requested = |pairs: &[(header::HeaderName, &'static str)]| {
            let headers = pairs.iter().map(|(name, value)| (name.clone(), http::HeaderValue::from_static(value)));
            retry_after(&headers.collect())
        };
        let (after, date) = (header::RETRY_AFTER, header::DATE);
        let until = |now, until| requested(&[(date.clone(), now), (after.clone(), until)]);
        assert_eq!(requested(&[(after.clone(), " 12 ")]), Some(Duration::from_secs(12)));
        let noon = "Tue, 24 Nov 2026 12:00:00 GMT";
        assert_eq!(until(noon, "Tue, 24 Nov 2026 12:01:30 GMT"), Some(Duration::from_secs(90)));
        assert_eq!(until(noon, "Tue, 24 Nov 2026 11:00:00 GMT"), Some(Duration::ZERO), "it has passed");
        assert_eq!(until(noon, "soon"), None);
        assert_eq!(until("noon", noon), None);
        assert_eq!(requested(&[(after.clone(), noon)]), None, "this machine's clock may be wrong");
        assert_eq!(requested(&[(after.clone(), "-1")]), None);
        assert_eq!(requested(&[]), None);
        let limit = header::HeaderName::from_static("ratelimit");
        assert_eq!(requested(&[(limit.clone(), "\"resolvers\";r=0;t=55")]), Some(Duration::from_secs(55)));
        assert_eq!(
            requested(&[(limit.clone(), "\"api\";r=9;t=20, \"pages\"; r=0; t=7")]),
            Some(Duration::from_secs(7))
        );
        assert_eq!(requested(&[(limit.clone(), "\"api\";r=9;t=20")]), None);
        assert_eq!(requested(&[(after.clone(), "3"), (limit, "\"api\";r=0;t=55")]), Some(Duration::from_secs(3)));
    }
}
