//! The store of a data set: its name, its distance, its clock.

use crate::doctor::finding::{ENVIRONMENT, Findings, Problem, Severity, Subject};
use forebay_loader::format::INDEX_BASENAME;
use forebay_loader::objects::{Objects, settings_from_json};
use forebay_loader::store::{Peek, is_url, local_folder, redact};
use forebay_loader::{Error, Result};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Requests for the latency, which is the middle of their times.
const REQUESTS: usize = 5;

/// Time for an answer, with its attempts.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Difference of the clocks at which signatures are refused.
const SKEW_MAX_S: u64 = 300;

pub(super) fn check(address: &str, findings: &mut Findings) {
    if !is_url(address) || local_folder(address).is_some() {
        return;
    }
    let name = redact(address).into_owned();
    let Ok(objects) = settings_from_json("{}").and_then(Objects::new) else { return };
    let url = format!("{}/{INDEX_BASENAME}", address.trim_end_matches('/'));
    let mut times = Vec::new();
    let mut skew = None;
    for _ in 0..REQUESTS {
        let start = Instant::now();
        match peek(&objects, &url) {
            Ok(peek) => {
                skew = peek.answered_s.map(|seconds| skew_from(seconds, SystemTime::now()));
                times.push(start.elapsed());
            }
            // The opening of the data set has the error.
            Err(_) => break,
        }
    }
    objects.close();
    times.sort_unstable();
    let Some(latency) = times.get(times.len() / 2) else { return };
    findings.fact("store", format!("{name}: {:.1} ms for a small request", latency.as_secs_f64() * 1e3));
    if let Some(seconds) = skew.filter(|seconds| *seconds > SKEW_MAX_S) {
        let advice = "stores refuse signatures of a wrong time: set the clock, such as with chrony";
        let problem =
            Problem::new(Severity::Error, ENVIRONMENT, "the clock of this machine differs from the store's", advice);
        findings.add(problem, Subject::Named(name), format!("{seconds} seconds"));
    }
}

fn peek(objects: &Objects, url: &str) -> Result<Peek> {
    let (sender, answer) = mpsc::channel();
    objects.peek(url, 1, move |peek| {
        // The receiver waits for a limited time.
        let _ = sender.send(peek);
    })?;
    answer.recv_timeout(ANSWER_MAX).map_err(|_| Error::internal("the store does not answer"))?
}

/// Seconds between a server's clock and `now`.
fn skew_from(answered_s: u64, now: SystemTime) -> u64 {
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    now.abs_diff(answered_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_or_after_the_stores_has_a_difference() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!((skew_from(1000, at(1400)), skew_from(1400, at(1000)), skew_from(7, at(7))), (400, 400, 0));
    }
}
