//! `00000_stats.json` of img2dataset: statistics of the downloads of one tar.

use super::known::{object, samples};
use crate::error::{Context, Error, Result};

/// Returns the number of pictures that were downloaded and written.
pub(super) fn parse(bytes: &[u8]) -> Result<u64> {
    let stats = object(bytes)?;
    let successes = stats.get("successes").ok_or_else(|| Error::format("the field is missing"));
    successes.and_then(samples).context("field", || "successes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successes_are_the_samples() {
        let text = br#"{
            "count": 10000, "successes": 9789, "failed_to_download": 200, "failed_to_resize": 11, "duration": 61.8,
            "start_time": 1647213475.2, "end_time": 1647213537.0, "status_dict": {"success": 9789, "timed out": 200}
        }"#;
        assert_eq!(parse(text).expect("stats"), 9789);
        for (text, says) in [
            ("{\"count\": 1}", "missing (field successes)"),
            ("{\"successes\": -1}", "a number of samples"),
            ("{\"successes\": 1", "not valid JSON"),
        ] {
            let e = parse(text.as_bytes()).expect_err(text);
            assert!(e.kind() == crate::ErrorKind::Format && e.to_string().contains(says), "{text}: {e}");
        }
    }
}
