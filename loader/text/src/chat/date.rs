//! Date that a template sees as the current one, and its `strftime`.

use forebay_core::error::{Error, Result};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A day; its time is midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    year: u32,
    /// From 1.
    month: u32,
    /// From 1.
    day: u32,
}

impl Date {
    /// # Errors
    /// Text that is no day as in `2026-11-29`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::config("`date` of Chat is a day such as \"2026-11-29\"").with("date", text);
        let parts: Vec<&str> = text.split('-').collect();
        let [year, month, day] = parts[..] else { return Err(wrong()) };
        let number = |text: &str, digits: usize| {
            let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().ok()).flatten().ok_or_else(wrong)
        };
        let date = Self { year: number(year, 4)?, month: number(month, 2)?, day: number(day, 2)? };
        let is_day = (1..=12).contains(&date.month) && (1..=date.days_in(date.month)).contains(&date.day);
        if date.year > 0 && is_day { Ok(date) } else { Err(wrong()) }
    }

    fn days_in(self, month: u32) -> u32 {
        let is_leap = self.year.is_multiple_of(4) && !self.year.is_multiple_of(100) || self.year.is_multiple_of(400);
        match month {
            2 => 28 + u32::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    fn day_of_year(self) -> u32 {
        (1..self.month).map(|month| self.days_in(month)).sum::<u32>() + self.day
    }

    /// Day of the week, from Sunday as 0.
    fn weekday(self) -> u32 {
        let years = self.year - 1;
        // The first day of the year 1 was a Monday.
        (years + years / 4 - years / 100 + years / 400 + self.day_of_year()) % 7
    }

    /// Returns the date as `datetime.strftime` of Python writes it; `None` for a format with an unknown part.
    pub(super) fn format(self, format: &str) -> Option<String> {
        let (month, weekday) = (MONTHS[self.month as usize - 1], WEEKDAYS[self.weekday() as usize]);
        let (mut text, mut chars) = (String::new(), format.chars());
        while let Some(char) = chars.next() {
            if char != '%' {
                text.push(char);
                continue;
            }
            let mut code = chars.next()?;
            let is_short = code == '-';
            if is_short {
                code = chars.next()?;
            }
            let part = match code {
                'Y' => format!("{:04}", self.year),
                'y' => format!("{:02}", self.year % 100),
                'm' => format!("{:02}", self.month),
                'd' => format!("{:02}", self.day),
                'e' => format!("{:2}", self.day),
                'j' => format!("{:03}", self.day_of_year()),
                'B' => month.to_owned(),
                'b' | 'h' => month[..3].to_owned(),
                'A' => weekday.to_owned(),
                'a' => weekday[..3].to_owned(),
                'w' => self.weekday().to_string(),
                'u' => ((self.weekday() + 6) % 7 + 1).to_string(),
                'F' => format!("{:04}-{:02}-{:02}", self.year, self.month, self.day),
                'D' => format!("{:02}/{:02}/{:02}", self.month, self.day, self.year % 100),
                'H' | 'M' | 'S' => "00".to_owned(),
                'I' => "12".to_owned(),
                'p' => "AM".to_owned(),
                'T' | 'X' => "00:00:00".to_owned(),
                'R' => "00:00".to_owned(),
                'Z' | 'z' => String::new(),
                '%' => "%".to_owned(),
                _ => return None,
            };
            let is_number = part.bytes().all(|byte| byte.is_ascii_digit() || byte == b' ');
            match part.trim_start_matches(['0', ' ']) {
                "" if is_short && is_number => text.push('0'),
                short if is_short && is_number => text.push_str(short),
                _ => text.push_str(&part),
            }
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_python_writes_it() {
        let date = Date::parse("2026-11-29").unwrap();
        assert_eq!(
            date.format("%d %b %Y, %A %B %-d %j %y %H:%M%%").unwrap(),
            "29 Nov 2026, Sunday November 29 333 26 00:00%"
        );
        assert_eq!(Date::parse("2024-02-09").unwrap().format("%-d %a %F").unwrap(), "9 Fri 2024-02-09");
        assert_eq!(date.format("%Q"), None);
    }

    #[test]
    fn a_text_that_is_no_day_is_refused() {
        for text in ["", "2026-2-1", "2026-02-29", "2026-13-01", "today", "0000-01-01", "2026-01-00"] {
            assert!(Date::parse(text).unwrap_err().to_string().contains("2026-11-29"), "{text}");
        }
    }
}
