//! Times in the forms of the tools of AWS.

use std::time::{Duration, SystemTime};

/// Parses a time such as `2026-11-24T12:00:00Z`, or one with the name of UTC or the offset of its zone.
pub(super) fn time(text: &str) -> Option<SystemTime> {
    let text = text.trim().replace("UTC", "Z");
    let zone = text.len().checked_sub(6).and_then(|at| text.split_at_checked(at)).and_then(|(local, zone)| {
        let (hours, minutes) = zone.strip_prefix(['+', '-'])?.split_once(':')?;
        let seconds = hours.parse::<u64>().ok()? * 3600 + minutes.parse::<u64>().ok()? * 60;
        Some((local, zone.starts_with('+'), Duration::from_secs(seconds)))
    });
    let Some((local, is_ahead, offset)) = zone else { return humantime::parse_rfc3339_weak(&text).ok() };
    let time = humantime::parse_rfc3339_weak(local).ok()?;
    if is_ahead { time.checked_sub(offset) } else { time.checked_add(offset) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_the_forms_of_the_tools() {
        let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(12 * 3600);
        for text in
            ["1970-01-01T12:00:00Z", "1970-01-01T12:00:00.000Z", "1970-01-01T12:00:00UTC", "1970-01-01T12:00:00+00:00"]
        {
            assert_eq!(time(text), Some(noon), "{text}");
        }
        for text in ["1970-01-01T14:30:00+02:30", "1970-01-01 05:00:00-07:00", "1970-01-01 12:00:00"] {
            assert_eq!(time(text), Some(noon), "{text}");
        }
        assert_eq!(time("soon"), None);
    }
}
