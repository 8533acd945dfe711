//! Time formats of HTTP and S3.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// Date and time of day in UTC.
struct Civil {
    year: u64,
    /// From 1.
    month: u64,
    /// From 1.
    day: u64,
    /// Days since 1 January 1970.
    days: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Civil {
    /// Converts a time, by the calendar's 400-year cycle counted from 1 March of the year 0.
    fn of(time: SystemTime) -> Self {
        let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let days = seconds / 86_400;
        let from_march = days + 719_468;
        let (era, day_of_era) = (from_march / 146_097, from_march % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted + 2) / 5 + 1,
            days,
            hour: seconds % 86_400 / 3600,
            minute: seconds % 3600 / 60,
            second: seconds % 60,
        }
    }
}

/// Formats as `Fri, 20 Nov 2026 19:54:58 GMT`.
pub(super) fn http(time: SystemTime) -> String {
    let c = Civil::of(time);
    let (weekday, month) = (DAYS[(c.days % 7) as usize], MONTHS[(c.month - 1) as usize]);
    format!("{weekday}, {:02} {month} {:04} {:02}:{:02}:{:02} GMT", c.day, c.year, c.hour, c.minute, c.second)
}

/// Formats as `2026-11-20T19:54:58.000Z`.
pub(super) fn iso(time: SystemTime) -> String {
    let c = Civil::of(time);
    format!("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.000Z", c.year, c.month, c.day, c.hour, c.minute, c.second)
}

/// Parses `20261120T195458Z`, the format of signatures; returns `None` for text in a different format.
pub(super) fn parse_amz(text: &str) -> Option<SystemTime> {
    let bytes = text.as_bytes();
    let digits = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(4, 6)?, digits(6, 8)?);
    let (hour, minute, second) = (digits(9, 11)?, digits(11, 13)?, digits(13, 15)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 1970 {
        return None;
    }
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, year_of_era) = (y / 400, y % 400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * m + 2) / 5 + day - 1;
    let days = era * 146_097 + day_of_era - 719_468;
    Some(UNIX_EPOCH + Duration::from_secs(days * 86_400 + hour * 3600 + minute * 60 + second))
}

/// Parses `Fri, 20 Nov 2026 19:54:58 GMT`.
pub(super) fn parse_http(text: &str) -> Option<SystemTime> {
    let fields: Vec<&str> = text.split([' ', ':']).collect();
    let [_, day, month, year, hour, minute, second, "GMT"] = fields[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let time = parse_amz(&format!("{year}{month:02}{day}T{hour}{minute}{second}Z"))?;
    // The name of the day must be right, too.
    (http(time) == text).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_gregorian_calendar_are_formatted_and_parsed() {
        for (text, seconds) in
            [("20261120T195458Z", 1_795_204_498), ("20240229T000000Z", 1_709_164_800), ("19700101T000001Z", 1)]
        {
            assert_eq!(parse_amz(text), Some(UNIX_EPOCH + Duration::from_secs(seconds)), "{text}");
        }
        let time = UNIX_EPOCH + Duration::from_secs(1_795_204_498);
        assert_eq!(http(time), "Fri, 20 Nov 2026 19:54:58 GMT");
        assert_eq!(iso(time), "2026-11-20T19:54:58.000Z");
        assert_eq!(parse_http("Fri, 20 Nov 2026 19:54:58 GMT"), Some(time));
        assert_eq!(parse_http("Mon, 20 Nov 2026 19:54:58 GMT"), None);
        assert_eq!(parse_amz("20261320T195458Z"), None);
        assert_eq!(parse_amz("yesterday"), None);
    }
}
