//! Result of one run of a scenario.

use crate::machine::Machine;
use forebay_loader::Error;
use serde::Serialize;
use std::collections::BTreeMap;

/// Direction in which a column's values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// Rates.
    Higher,
    /// Times and sizes.
    Lower,
    /// Facts about the run.
    Neither,
}

/// Measured quantity.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Column {
    /// Name in the JSON, unit last.
    pub(crate) key: &'static str,
    /// Title of the column and of the plot's panel.
    pub(crate) title: &'static str,
    /// Number of decimals.
    pub(crate) decimals: usize,
    /// Direction of better values.
    pub(crate) better: Better,
    /// True if the plot shows the column.
    pub(crate) plotted: bool,
}

impl Column {
    /// Returns a column that only the table shows.
    pub(crate) fn new(key: &'static str, title: &'static str, decimals: usize, better: Better) -> Self {
        Self { key, title, decimals, better, plotted: false }
    }

    /// Shows the column in the plot as well.
    pub(crate) fn plotted(mut self) -> Self {
        self.plotted = true;
        self
    }
}

/// Figures of one program or configuration.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    /// Rows of a group did the same work on the same CPUs.
    pub(crate) group: String,
    /// Name of the program or configuration.
    pub(crate) name: String,
    /// Values by column key. A value that could not be measured is absent.
    pub(crate) values: BTreeMap<&'static str, f64>,
    /// Remark in a few words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) remark: String,
    /// Further values for the JSON.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub(crate) details: serde_json::Value,
}

/// Curves over one pair of axes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Curves {
    /// Subject of the lines, empty if there is only one plot.
    pub(crate) subject: String,
    /// Title of the horizontal axis.
    pub(crate) x_title: &'static str,
    /// Title of the vertical axis.
    pub(crate) y_title: &'static str,
    /// Name and points by increasing x. Lines of one name have one colour.
    pub(crate) lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// Program that was not measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Skipped {
    /// Name of the program.
    pub(crate) name: String,
    /// Reason, as a sentence.
    pub(crate) reason: String,
}

/// Table of figures: rows are programs or configurations, in groups that may be compared (one group per
/// CPU set, for example), columns are measured quantities.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Name of the scenario.
    pub(crate) scenario: &'static str,
    /// Work and data, in one line.
    pub(crate) title: String,
    /// Complete command line, to repeat the run.
    pub(crate) command: Vec<String>,
    /// Seconds since 1970 when the report was made.
    pub(crate) unix_s: u64,
    /// Debug or release.
    pub(crate) profile: &'static str,
    /// Machine of the run.
    pub(crate) machine: Machine,
    /// Version by program or package.
    pub(crate) versions: BTreeMap<String, String>,
    /// Measured quantities.
    pub(crate) columns: Vec<Column>,
    /// Figures of all programs.
    pub(crate) rows: Vec<Row>,
    /// Name of the row that ratios refer to, if the scenario has one.
    pub(crate) baseline: Option<String>,
    /// True if rows keep the order in which they were added (parts or steps). Otherwise a group's best row is first.
    pub(crate) is_listed: bool,
    /// True if the bars of each group have their own scale: for groups that do different work.
    pub(crate) is_scaled_by_group: bool,
    /// Column of ratios and order. A group without it uses the first column that it has.
    pub(crate) primary: &'static str,
    /// Curves that the plot shows below the bars.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) curves: Vec<Curves>,
    /// Programs that were not measured.
    pub(crate) skipped: Vec<Skipped>,
    /// Notes for the reader, as sentences.
    pub(crate) notes: Vec<String>,
    /// Further text for the terminal: tables of the parts of a row.
    #[serde(skip)]
    pub(crate) blocks: Vec<String>,
}

impl Report {
    /// Returns an empty report. `columns[0]` is the primary column.
    pub(crate) fn new(scenario: &'static str, title: impl Into<String>, columns: Vec<Column>) -> Self {
        let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let mut report = Self {
            scenario,
            title: title.into(),
            command: std::env::args().collect(),
            unix_s: unix.map_or(0, |t| t.as_secs()),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            machine: Machine::here(),
            versions: BTreeMap::new(),
            primary: columns.first().map_or("", |c| c.key),
            columns,
            rows: Vec::new(),
            baseline: None,
            is_listed: false,
            is_scaled_by_group: false,
            curves: Vec::new(),
            skipped: Vec::new(),
            notes: Vec::new(),
            blocks: Vec::new(),
        };
        if cfg!(debug_assertions) {
            report
                .notes
                .push("built without optimisation (debug): figures of forebay's own code are too low".to_owned());
        }
        report
    }

    /// Records once that a program was not measured.
    pub(crate) fn skip(&mut self, name: &str, why: &Error) {
        self.skipped.retain(|skipped| skipped.name != name);
        self.skipped.push(Skipped { name: name.to_owned(), reason: why.to_string() });
    }

    /// Adds the `versions` that a child process `found`.
    pub(crate) fn add_versions(&mut self, found: &serde_json::Value) {
        for (package, version) in found["versions"].as_object().into_iter().flatten() {
            self.versions.insert(package.clone(), version.as_str().unwrap_or_default().to_owned());
        }
    }

    /// Returns the groups in order of first use.
    pub(super) fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !groups.contains(&row.group.as_str()) {
                groups.push(&row.group);
            }
        }
        groups
    }

    /// Returns the column of ratios and order of `group`.
    pub(super) fn primary_of(&self, group: &str) -> &'static str {
        let measured =
            |key: &&'static str| self.rows.iter().any(|row| row.group == group && row.values.contains_key(key));
        let all = std::iter::once(self.primary).chain(self.columns.iter().map(|c| c.key));
        all.into_iter().find(measured).unwrap_or(self.primary)
    }

    fn is_lower_better(&self, key: &str) -> bool {
        self.columns.iter().any(|c| c.key == key && c.better == Better::Lower)
    }

    /// Returns a group's rows, the best by its primary column first unless they are listed. Rows without a value are
    /// last.
    pub(super) fn ranked(&self, group: &str) -> Vec<&Row> {
        let primary = self.primary_of(group);
        let lower = self.is_lower_better(primary);
        let worth = |row: &Row| match row.values.get(primary) {
            Some(v) if lower => -v,
            Some(v) => *v,
            None => f64::NEG_INFINITY,
        };
        let mut rows: Vec<&Row> = self.rows.iter().filter(|r| r.group == group).collect();
        if !self.is_listed {
            rows.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        }
        rows
    }

    /// Returns the ratio of a row to the baseline of its group in the group's primary column; above 1 is better.
    pub(super) fn ratio(&self, row: &Row) -> Option<f64> {
        self.times_better(row, self.primary_of(&row.group))
    }

    /// Returns the ratio of a row to the baseline of its group in column `key`; above 1 is better.
    pub(crate) fn times_better(&self, row: &Row, key: &str) -> Option<f64> {
        let baseline = self.baseline.as_ref()?;
        let base = self.rows.iter().find(|r| r.group == row.group && r.name == *baseline)?;
        let (ours, theirs) = (*row.values.get(key)?, *base.values.get(key)?);
        let ratio = if self.is_lower_better(key) { theirs / ours } else { ours / theirs };
        ratio.is_finite().then_some(ratio)
    }

    /// Returns the report as JSON.
    pub(crate) fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a report has string keys and finite shape");
        text.push('\n');
        text
    }
}

/// Returns the median, NaN for no values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Formats with separators: `1234567.89` as `1,234,568` or with decimals.
pub(super) fn number(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain.as_str()), |d| ("-", d));
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut grouped = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(c);
    }
    format!("{sign}{grouped}{rest}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a small report with two groups, a missing value and a baseline.
    pub(crate) fn sample() -> Report {
        let columns = vec![
            Column::new("images_per_s", "images/s", 0, Better::Higher).plotted(),
            Column::new("first_batch_s", "first batch s", 2, Better::Lower).plotted(),
        ];
        let mut report = Report::new("peers", "600 <photos>", columns);
        report.baseline = Some("slow".into());
        for (group, name, rate) in [("1 CPU", "slow", 500.0), ("1 CPU", "forebay", 1250.0), ("2 CPUs", "slow", 900.5)] {
            let mut row = Row { group: group.into(), name: name.into(), ..Row::default() };
            row.values.insert("images_per_s", rate);
            report.rows.push(row);
        }
        report.rows[0].values.insert("first_batch_s", 0.25);
        report.rows[0].remark = "the first".into();
        report.skipped.push(Skipped { name: "dali".into(), reason: "not installed".into() });
        report
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(number(1_234_567.891, 1), "1,234,567.9");
        assert_eq!(number(-999.0, 0), "-999");
        assert_eq!(number(1000.0, 0), "1,000");
    }

    #[test]
    fn ratios_refer_to_the_group_and_are_inverted_for_times() {
        let mut report = sample();
        assert_eq!(report.ratio(&report.rows[1]), Some(2.5));
        report.columns[0].better = Better::Lower;
        assert_eq!(report.ratio(&report.rows[1]), Some(0.4));
        assert_eq!(report.ranked("1 CPU")[0].name, "slow");
        report.is_listed = true;
        report.columns[0].better = Better::Higher;
        assert_eq!(report.ranked("1 CPU")[0].name, "slow");
    }

    #[test]
    fn a_group_without_the_primary_column_is_compared_by_the_first_that_it_has() {
        let mut report = sample();
        for (name, seconds) in [("slow", 3.0), ("forebay", 2.0)] {
            let mut row = Row { group: "start".into(), name: name.into(), ..Row::default() };
            row.values.insert("first_batch_s", seconds);
            report.rows.push(row);
        }
        let names: Vec<_> = report.ranked("start").iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["forebay", "slow"]);
        assert_eq!(report.ratio(report.ranked("start")[0]), Some(1.5));
    }

    #[test]
    fn the_json_keeps_rows_skips_and_the_command_line() {
        let json: serde_json::Value = serde_json::from_str(&sample().json()).expect("json");
        assert_eq!(json["rows"][1]["values"]["images_per_s"], 1250.0);
        assert_eq!(json["skipped"][0]["reason"], "not installed");
        assert!(!json["command"].as_array().expect("arguments").is_empty());
    }
}
