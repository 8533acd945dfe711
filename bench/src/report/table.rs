//! Report for the terminal: a block of aligned columns per group.

use super::data::{Report, Row, number};
use std::fmt::Write as _;

/// Length up to which the reason of a skip is printed. The JSON has all of it.
const REASON_CHARS_MAX: usize = 160;

/// Formats the whole report as text that ends with a newline.
pub(super) fn render(report: &Report) -> String {
    let mut out = format!("\n{}: {}\n", report.scenario, report.title);
    let m = &report.machine;
    let gib = m.memory_bytes as f64 / f64::from(1 << 30);
    let _ = writeln!(out, "{} CPUs of {}, {gib:.0} GiB, Linux {}, load {:.2}", m.cpus, m.cpu, m.kernel, m.load);
    if !report.versions.is_empty() {
        let all: Vec<String> = report.versions.iter().map(|(name, v)| format!("{name} {v}")).collect();
        let _ = writeln!(out, "{}", all.join(", "));
    }
    for group in report.groups() {
        out.push('\n');
        block(&mut out, report, group);
    }
    for text in &report.blocks {
        let _ = write!(out, "\n{text}");
    }
    if !report.skipped.is_empty() {
        out.push('\n');
    }
    for skip in &report.skipped {
        let reason = skip.reason.lines().next().unwrap_or_default();
        let short: String = reason.chars().take(REASON_CHARS_MAX).collect();
        let _ = writeln!(out, "skipped {}: {short}", skip.name);
    }
    for note in &report.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

fn block(out: &mut String, report: &Report, group: &str) {
    let mut head = vec![group.to_owned()];
    head.extend(report.columns.iter().map(|c| c.title.to_owned()));
    if let Some(baseline) = &report.baseline {
        head.push(format!("x {baseline}"));
    }
    let has_remarks = report.ranked(group).iter().any(|row| !row.remark.is_empty());
    if has_remarks {
        head.push(String::new());
    }
    let mut lines = vec![head];
    lines.extend(report.ranked(group).into_iter().map(|row| {
        let mut cells = cells(report, row);
        cells.extend(has_remarks.then(|| row.remark.clone()));
        cells
    }));
    let columns = lines[0].len();
    let widths: Vec<usize> =
        (0..columns).map(|c| lines.iter().map(|l| l[c].chars().count()).max().unwrap_or(0)).collect();
    for (i, line) in lines.iter().enumerate() {
        let mut text = format!("{:<w$}", line[0], w = widths[0]);
        for (cell, w) in line.iter().zip(&widths).skip(1) {
            let _ = write!(text, "  {cell:>w$}");
        }
        let _ = writeln!(out, "{}", text.trim_end());
        if i == 0 {
            let _ = writeln!(out, "{}", "-".repeat(widths.iter().sum::<usize>() + 2 * (columns - 1)));
        }
    }
}

fn cells(report: &Report, row: &Row) -> Vec<String> {
    let mut cells = vec![row.name.clone()];
    for column in &report.columns {
        cells.push(row.values.get(column.key).map_or_else(|| "-".to_owned(), |v| number(*v, column.decimals)));
    }
    if report.baseline.is_some() {
        cells.push(report.ratio(row).map_or_else(|| "-".to_owned(), |r| format!("{r:.2}")));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::sample;

    #[test]
    fn the_table_ranks_each_group_and_marks_missing_values() {
        let text = sample().table();
        let lines: Vec<&str> = text.lines().collect();
        let at = |start: &str| lines.iter().position(|l| l.starts_with(start)).expect("a line");
        assert!(at("forebay") < at("slow"));
        assert_eq!(lines[at("forebay")].split_whitespace().collect::<Vec<_>>(), ["forebay", "1,250", "-", "2.50"]);
        assert!(lines.contains(&"skipped dali: not installed"));
        assert!(lines[at("slow")].ends_with("the first"));
    }
}
