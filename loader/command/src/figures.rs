//! Sizes and times of objects for people.

use std::time::SystemTime;

/// Returns a size in bytes with two or three digits and its unit.
pub(crate) fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut size, mut unit) = (bytes as f64 / 1e3, "kB");
    for larger in ["MB", "GB", "TB", "PB", "EB"] {
        // Not "1000 kB".
        if size < 999.5 {
            break;
        }
        (size, unit) = (size / 1e3, larger);
    }
    if size < 9.95 { format!("{size:.1} {unit}") } else { format!("{size:.0} {unit}") }
}

/// Returns a time in UTC for people, in whole seconds.
pub(crate) fn time(time: SystemTime) -> String {
    json_time(time).trim_end_matches('Z').replace('T', " ")
}

/// Returns a time in UTC as JSON has it.
pub(crate) fn json_time(time: SystemTime) -> String {
    // An object may claim any time, and the format has years from 1970 to 9999.
    let start = SystemTime::UNIX_EPOCH;
    let years = time.duration_since(start).ok().filter(|since| since.as_secs() < 253_402_300_800);
    humantime::format_rfc3339_seconds(years.map_or(start, |since| start + since)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn sizes_have_two_or_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9949, "9.9 kB"),
            (9999, "10 kB"),
            (999_499, "999 kB"),
            (999_500, "1.0 MB"),
            (1_234_000_000, "1.2 GB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn times_are_in_utc_and_of_any_year() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(time(at(1_700_000_000)), "2023-11-14 22:13:20");
        assert_eq!(json_time(at(1_700_000_000)), "2023-11-14T22:13:20Z");
        assert_eq!(json_time(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00Z");
        assert_eq!(json_time(at(253_402_300_800)), "1970-01-01T00:00:00Z");
    }
}
