//! Report as a picture: a grid of bar charts, one row per plotted column, one column per group, and curves below them.
//!
//! SVG is text and needs no drawing library. Bars are horizontal since names are long, sorted by the primary column,
//! and coloured for forebay.

use super::data::{Better, Column, Curves, Report, Row, number};
use std::fmt::Write as _;

// Geometry in pixels at the picture's natural size.
const BAR: f64 = 20.0;
const GAP: f64 = 7.0;
const NAMES_MIN: f64 = 110.0;
const BARS: f64 = 300.0;
const VALUES_MIN: f64 = 110.0;
const PANEL_HEAD: f64 = 34.0;
const MARGIN: f64 = 24.0;
const CURVES: f64 = 220.0;
const AXIS: f64 = 40.0;

const STYLE: &str = "text{font-family:'Inter','Segoe UI','Helvetica Neue',Arial,sans-serif;fill:#1f2933}\
.t{font-size:18px;font-weight:600}.s{font-size:12px;fill:#616e7c}.p{font-size:13px;font-weight:600}\
.n{font-size:12.5px}.v{font-size:12.5px;fill:#3e4c59}.g{stroke:#d9e2ec;stroke-width:1}\
.peer{fill:#9fb3c8}.ours{fill:#0b7285}\
.line{fill:none;stroke-width:1.5}.line.peer{stroke:#9fb3c8}.line.ours{stroke:#0b7285}";

/// Mean width of a letter relative to the font size, for breaking lines.
const LETTER: f64 = 0.56;
const LINE: f64 = 1.35;
/// Font size of the names of bars, as in the style.
const NAME_SIZE: f64 = 12.5;

/// Draws the whole report as one SVG document.
pub(super) fn render(report: &Report) -> String {
    let columns: Vec<&Column> = report.columns.iter().filter(|c| c.plotted).collect();
    let groups = report.groups();
    // Groups side by side, one row per column of the report. The columns of a single group fill two columns instead.
    let across = match (columns.is_empty(), groups.len()) {
        (true, _) => 2,
        (false, 0 | 1) => columns.len().min(2),
        (false, groups) => groups,
    };
    let wide = |letters: usize| letters as f64 * NAME_SIZE * LETTER;
    let longest = report.rows.iter().map(|r| r.name.chars().count()).max().unwrap_or(0);
    let names = (wide(longest) + 12.0).max(NAMES_MIN);
    let cells = columns.iter().flat_map(|column| report.rows.iter().map(move |row| (*column, row)));
    let labels = cells.filter_map(|(column, row)| Some(label(report, column, row, *row.values.get(column.key)?)));
    // Space for the label of the longest bar, and a gap before the next panel.
    let values = (wide(labels.map(|label| label.chars().count()).max().unwrap_or(0)) + 24.0).max(VALUES_MIN);
    let panel_w = names + BARS + values;
    let width = MARGIN * 2.0 + across as f64 * panel_w;
    let rows_max = groups.iter().map(|g| report.ranked(g).len()).max().unwrap_or(0);
    let panel_h = PANEL_HEAD + rows_max as f64 * (BAR + GAP) + 18.0;

    let mut body = String::new();
    let mut y = MARGIN;
    y = paragraph(&mut body, y, width, ("t", 18.0), &report.title);
    let m = &report.machine;
    let mut about = format!("{} CPUs of {}, Linux {}, {} build", m.cpus, m.cpu, m.kernel, report.profile);
    if let Some(baseline) = report.baseline.as_ref().filter(|_| !columns.is_empty()) {
        let _ = write!(about, "; in parentheses: times {baseline}");
    }
    if report.is_scaled_by_group && groups.len() > 1 {
        about.push_str("; every panel has its own scale");
    }
    y = paragraph(&mut body, y, width, ("s", 12.0), &about) + 8.0;
    let panels: Vec<(&Column, &str)> =
        columns.iter().flat_map(|column| groups.iter().map(move |group| (*column, *group))).collect();
    for (i, (column, group)) in panels.iter().enumerate() {
        let at = (MARGIN + (i % across) as f64 * panel_w, y + (i / across) as f64 * panel_h);
        panel(&mut body, report, column, group, at, names);
    }
    y += panels.len().div_ceil(across) as f64 * panel_h + 4.0;
    for curves in &report.curves {
        y += draw_curves(&mut body, curves, y, width);
    }
    let versions: Vec<String> = report.versions.iter().map(|(name, v)| format!("{name} {v}")).collect();
    y = paragraph(&mut body, y, width, ("s", 12.0), &versions.join(", "));
    let height = y + MARGIN / 2.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height:.0}\" viewBox=\"0 0 {width} \
         {height:.0}\">\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// Breaks `content` into lines that fit; returns the y below the last.
fn paragraph(svg: &mut String, y: f64, width: f64, (class, size): (&str, f64), content: &str) -> f64 {
    let letters_max = ((width - 2.0 * MARGIN) / (size * LETTER)) as usize;
    let mut lines = vec![String::new()];
    for word in content.split_whitespace() {
        let line = lines.last_mut().expect("starts with one");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > letters_max {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    for (i, line) in lines.iter().enumerate() {
        text(svg, MARGIN, y + size + i as f64 * size * LINE, class, "start", line);
    }
    y + lines.len() as f64 * size * LINE
}

fn panel(svg: &mut String, report: &Report, column: &Column, group: &str, (x, y): (f64, f64), names: f64) {
    let better = match column.better {
        Better::Higher => " (more is better)",
        Better::Lower => " (less is better)",
        Better::Neither => "",
    };
    let comma = if group.is_empty() { "" } else { ", " };
    text(svg, x, y + 18.0, "p", "start", &format!("{}{comma}{group}{better}", column.title));
    let rows = report.ranked(group);
    // Otherwise one scale for all groups of a column, so that panels side by side can be compared by eye.
    let beside = |row: &&Row| !report.is_scaled_by_group || row.group == group;
    let all = report.rows.iter().filter(beside).filter_map(|r| r.values.get(column.key));
    let scale_max = all.fold(0.0f64, |a, b| a.max(*b)).max(f64::MIN_POSITIVE);
    let (left, top) = (x + names, y + PANEL_HEAD);
    let bottom = top + rows.len() as f64 * (BAR + GAP);
    for quarter in 0..=4 {
        let gx = left + BARS * f64::from(quarter) / 4.0;
        let _ = writeln!(svg, "<line class=\"g\" x1=\"{gx:.1}\" x2=\"{gx:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>");
    }
    for (i, row) in rows.into_iter().enumerate() {
        let bar_y = top + i as f64 * (BAR + GAP);
        let base = bar_y + BAR * 0.72;
        text(svg, left - 8.0, base, "n", "end", &row.name);
        let Some(value) = row.values.get(column.key) else {
            text(svg, left + 6.0, base, "v", "start", "not measured");
            continue;
        };
        let w = (BARS * value / scale_max).max(1.0);
        let class = class_of(&row.name);
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{bar_y:.1}\" width=\"{w:.1}\" height=\"{BAR}\" rx=\"2\"/>"
        );
        text(svg, left + w + 6.0, base, "v", "start", &label(report, column, row, *value));
    }
}

/// Draws all lines over one pair of axes that ends at the extreme points; returns the height.
fn draw_curves(svg: &mut String, curves: &Curves, y: f64, width: f64) -> f64 {
    let points = || curves.lines.iter().flat_map(|(_, points)| points);
    let ends = |of: fn(&(f64, f64)) -> f64| {
        points().map(of).fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
    };
    let ((x_low, x_high), (_, y_high)) = (ends(|p| p.0), ends(|p| p.1));
    let (left, top) = (MARGIN + AXIS, y + PANEL_HEAD);
    let (wide, bottom) = (width - MARGIN - left, top + CURVES);
    let y_top = ticks(0.0, y_high).last().map_or(y_high, |last| last.max(y_high)).max(f64::MIN_POSITIVE);
    let at_x = |v: f64| left + wide * (v - x_low) / (x_high - x_low).max(f64::MIN_POSITIVE);
    let at_y = |v: f64| bottom - CURVES * v / y_top;
    let comma = if curves.subject.is_empty() { "" } else { ": " };
    let title = format!("{}{comma}{} by {}", curves.subject, curves.y_title, curves.x_title);
    text(svg, MARGIN, y + 18.0, "p", "start", &title);
    for tick in ticks(0.0, y_top) {
        let (right, gy) = (left + wide, at_y(tick));
        let _ = writeln!(svg, "<line class=\"g\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{gy:.1}\" y2=\"{gy:.1}\"/>");
        text(svg, left - 6.0, gy + 4.0, "v", "end", &tick.to_string());
    }
    for tick in ticks(x_low, x_high) {
        text(svg, at_x(tick), bottom + 16.0, "v", "middle", &tick.to_string());
    }
    let mut named: Vec<&str> = Vec::new();
    for (name, points) in &curves.lines {
        if !named.contains(&name.as_str()) {
            named.push(name);
        }
        let place = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", at_x(*x), at_y(*y));
        let path: Vec<String> = points.iter().map(place).collect();
        let _ = writeln!(svg, "<polyline {} points=\"{}\"/>", line_style(name, &named), path.join(" "));
    }
    // In the right corner that most lines do not end in.
    let last: Vec<f64> = curves.lines.iter().filter_map(|(_, points)| points.last().map(|p| p.1)).collect();
    let is_high = last.iter().sum::<f64>() * 2.0 > last.len() as f64 * y_top;
    let legend_top = if is_high { bottom - 12.0 - 18.0 * named.len().saturating_sub(1) as f64 } else { top + 6.0 };
    for (i, name) in named.iter().enumerate() {
        let (x, legend_y) = (left + wide - 180.0, legend_top + 18.0 * i as f64);
        let (style, middle) = (line_style(name, &named), legend_y - 4.0);
        let end = x + 14.0;
        let _ = writeln!(svg, "<line {style} x1=\"{x:.1}\" x2=\"{end:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>");
        text(svg, x + 20.0, legend_y, "n", "start", name);
    }
    PANEL_HEAD + CURVES + 34.0
}

/// Returns the attributes of a line: of the names so far, every second peer is dashed.
fn line_style(name: &str, named: &[&str]) -> String {
    let class = class_of(name);
    let peers = named.iter().filter(|known| class_of(known) == "peer");
    let is_dashed = class == "peer" && peers.take_while(|known| **known != name).count() % 2 == 1;
    format!("class=\"line {class}\"{}", if is_dashed { " stroke-dasharray=\"5 4\"" } else { "" })
}

/// Returns the style: forebay is coloured.
fn class_of(name: &str) -> &'static str {
    if name.starts_with("forebay") { "ours" } else { "peer" }
}

/// Returns round numbers from `low` to `high`, ten at most.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let power = 10_f64.powf(((high - low) / 8.0).max(f64::MIN_POSITIVE).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| (high - low) / step <= 8.0);
    let Some(step) = step.filter(|step| step.is_normal()) else { return Vec::new() };
    let first = (low / step).ceil();
    // Rounded, so that three tenths are not printed with 17 digits.
    let tick = |i| ((first + f64::from(i)) * step * 1e9).round() / 1e9;
    (0..10).map(tick).take_while(|tick| *tick <= high).collect()
}

/// Returns the value, in the primary column with the ratio to the baseline and the row's remark.
fn label(report: &Report, column: &Column, row: &Row, value: f64) -> String {
    let mut label = number(value, column.decimals);
    if column.key != report.primary_of(&row.group) {
        return label;
    }
    if let Some(r) = report.ratio(row).filter(|_| report.baseline.as_ref() != Some(&row.name)) {
        let _ = write!(label, "  ({r:.2}x)");
    }
    if !row.remark.is_empty() {
        // A colon, since renderers merge several spaces into one.
        let _ = write!(label, ": {}", row.remark);
    }
    label
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, anchor: &str, content: &str) {
    let safe = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{safe}</text>");
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::sample;

    #[test]
    fn the_plot_escapes_text_and_draws_one_bar_per_value() {
        let svg = sample().svg();
        assert!(svg.contains("600 &lt;photos&gt;") && !svg.contains("<photos>"));
        assert_eq!(svg.matches("rx=\"2\"").count(), 4);
        assert_eq!(svg.matches("class=\"ours\"").count(), 1);
        assert!(svg.contains("1,250  (2.50x)"));
        assert!(svg.contains("500: the first"));
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn a_panel_is_wide_enough_for_its_longest_label() {
        let width = |report: &super::Report| {
            let svg = report.svg();
            let start = svg.split("width=\"").nth(1).expect("a width");
            start.split('"').next().expect("its end").parse::<f64>().expect("a number")
        };
        let (report, mut wide) = (sample(), sample());
        wide.rows[0].remark = "a remark that is longer than any number".to_owned();
        assert!(width(&wide) > width(&report) + 100.0);
        let mut large = sample();
        large.rows.iter_mut().for_each(|row| row.values.values_mut().for_each(|value| *value *= 1e12));
        assert!(width(&large) > width(&report));
    }

    #[test]
    fn groups_share_a_scale_unless_they_do_different_work() {
        let widths = |svg: &str| -> Vec<f64> {
            let bars = svg.lines().filter(|line| line.ends_with("rx=\"2\"/>"));
            let width = |bar: &str| bar.split(" width=\"").nth(1)?.split('"').next()?.parse().ok();
            bars.map(|bar| width(bar).expect("a width")).collect()
        };
        let mut report = sample();
        report.rows.truncate(2);
        let key = report.columns[0].key;
        for (row, value) in report.rows.iter_mut().zip([10.0, 1000.0]) {
            (row.group, row.values) = (row.name.clone(), [(key, value)].into());
        }
        assert_eq!(widths(&report.svg()), [3.0, 300.0]);
        report.is_scaled_by_group = true;
        assert_eq!(widths(&report.svg()), [300.0, 300.0]);
        assert!(report.svg().contains("every panel has its own scale"));
    }

    #[test]
    fn curves_are_below_the_bars_and_the_legend_has_each_name_once() {
        let mut report = sample();
        let line = |name: &str, last| (name.to_owned(), vec![(1.0, 10.0), (2.0, last)]);
        let lines = vec![line("forebay", 60.0), line("forebay", 70.0), line("slow", 80.0)];
        report.curves = vec![super::Curves { subject: "all".to_owned(), x_title: "epoch", y_title: "% right", lines }];
        let svg = report.svg();
        assert_eq!(svg.matches("<polyline").count(), 3);
        assert_eq!(svg.matches("<polyline class=\"line ours\"").count(), 2);
        assert_eq!(svg.matches(">forebay</text>").count(), sample().svg().matches(">forebay</text>").count() + 1);
        assert!(svg.contains("all: % right by epoch"));
    }

    #[test]
    fn ticks_are_round_and_within_the_ends() {
        assert_eq!(super::ticks(0.0, 86.9), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(super::ticks(1.0, 8.0), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert!(super::ticks(3.0, 3.0).len() <= 10 && super::ticks(f64::MAX, f64::MIN).is_empty());
    }

    #[test]
    fn a_long_title_is_broken_into_lines_that_fit() {
        let mut report = sample();
        report.title = "word ".repeat(60);
        let svg = report.svg();
        assert!(svg.matches("class=\"t\"").count() > 1);
        assert_eq!(svg.matches("word").count(), 60);
    }
}
