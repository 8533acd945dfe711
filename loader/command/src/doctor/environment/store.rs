//! The store of a data set: its name, its distance, its clock.

use crate::Session;
use crate::doctor::finding::{ENVIRONMENT, Findings, Problem, Severity, Subject};
use forebay_loader::format::INDEX_BASENAME;
use forebay_loader::objects::Objects;
use forebay_loader::store::{Peek, S3Settings, is_url, local_folder, redact};
use forebay_loader::{Error, Result};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Requests for the latency, which is the middle of their times.
const REQUESTS: usize = 5;

/// Longest wait for an answer, all attempts included.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Difference of the clocks at which signatures are refused.
const SKEW_MAX_S: u64 = 300;

/// Shortest time for which a signature or credentials should be valid.
const VALID_MIN_S: u64 = 12 * 3600;

pub(super) fn check(session: &Session, address: &str, findings: &mut Findings) {
    if !is_url(address) || local_folder(address).is_some() {
        return;
    }
    let name = redact(address).into_owned();
    let now = SystemTime::now();
    if let Some(end) = end_of_signature(address) {
        let advice = "make a new one that lasts as long as the training, or pass credentials";
        limited(("signature", "the signature of the URL", advice), end, now, &name, findings);
    }
    let settings = S3Settings::from_env().ok().filter(|_| address.starts_with("s3://"));
    if let Some(end) = settings.and_then(|settings| settings.end?.duration_since(UNIX_EPOCH).ok()) {
        let advice = "get new ones, such as with `aws sso login`, or name a source that renews them, such as a role or \
                      `credential_process`";
        limited(("credentials", "the time of the credentials", advice), end.as_secs(), now, &name, findings);
    }
    let Ok(objects) = session.objects() else { return };
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

/// Reports a signature or credentials by their end, in seconds since 1970. `words` name them in a finding.
fn limited((fact, words, advice): (&str, &str, &str), end: u64, now: SystemTime, name: &str, findings: &mut Findings) {
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (severity, message) = match end.checked_sub(now) {
        None | Some(0) => (Severity::Error, format!("{words} has ended")),
        Some(left) if left < VALID_MIN_S => (Severity::Warning, format!("{words} ends soon")),
        Some(left) => return findings.fact(fact, format!("{name}: {} hours are left", left / 3600)),
    };
    let detail = format!("{} minutes", end.abs_diff(now) / 60);
    findings.add(Problem::new(severity, ENVIRONMENT, message, advice), Subject::Named(name.to_owned()), detail);
}

/// Returns the end of a signature in a URL, in seconds since 1970: of S3, Google's or CloudFront's, or Azure's.
fn end_of_signature(address: &str) -> Option<u64> {
    let (_, query) = address.split_once('?')?;
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let lasting = |cloud: &str| {
        let start = seconds_of(value(&format!("X-{cloud}-Date"))?)?;
        Some(start + value(&format!("X-{cloud}-Expires"))?.parse::<u64>().ok()?)
    };
    let at_once = || value("Expires")?.parse().ok();
    lasting("Amz").or_else(|| lasting("Goog")).or_else(|| seconds_of(value("se")?)).or_else(at_once)
}

/// Reads a time such as 20261129T120000Z or 2026-11-29T12%3A00%3A00Z, in seconds since 1970.
fn seconds_of(text: &str) -> Option<u64> {
    let text = text.replace("%3A", "").replace("%3a", "");
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    // A day without a time is its start.
    let day = digits.get(..8)?;
    let part = |from: usize| digits.get(from..from + 2).unwrap_or("00");
    let (hour, minute, second) = (part(8), part(10), part(12));
    let time = format!("{}-{}-{}T{hour}:{minute}:{second}Z", &day[..4], &day[4..6], &day[6..]);
    let time = humantime::parse_rfc3339(&time).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs())
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

    #[test]
    fn the_end_of_a_signature_is_read_in_the_form_of_each_cloud() {
        for (query, end) in [
            ("X-Amz-Date=20261129T120000Z&X-Amz-Expires=3600", Some(1_795_957_200)),
            ("X-Goog-Date=20261129T120000Z&X-Goog-Expires=60", Some(1_795_953_660)),
            ("sv=2022-11-02&se=2026-11-29T12%3A00%3A00Z&sig=x", Some(1_795_953_600)),
            ("se=2024-02-29", Some(1_709_164_800)),
            ("Expires=1795953600&Signature=x", Some(1_795_953_600)),
            ("X-Amz-Date=soon&X-Amz-Expires=3600", None),
            ("se=9999999999", None),
            ("token=a", None),
        ] {
            assert_eq!(end_of_signature(&format!("https://host/set?{query}")), end, "{query}");
        }
    }

    #[test]
    fn a_signature_that_ends_soon_is_a_warning_and_one_that_has_ended_an_error() {
        let right = ("signature", "the signature of the URL", "make a new one");
        let at = |seconds: u64| {
            let mut findings = Findings::default();
            limited(right, 86_400, UNIX_EPOCH + Duration::from_secs(seconds), "host", &mut findings);
            findings.found().next().map(|finding| finding.problem.severity)
        };
        assert_eq!((at(0), at(80_000), at(90_000)), (None, Some(Severity::Warning), Some(Severity::Error)));
    }
}
