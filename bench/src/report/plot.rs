//! The report as a picture: a grid of bar charts, one row per plotted column, one column per group.
//!
//! SVG is text, so it needs no drawing library, and it looks sharp on a page. Bars are horizontal because names are
//! long, sorted by the primary column because that is the question, and forebay's are the coloured ones.

use super::{Better, Column, Report, Row, number};
use std::fmt::Write as _;

/// Geometry in pixels at the picture's natural size.
const BAR: f64 = 20.0;
const GAP: f64 = 7.0;
const NAMES: f64 = 150.0;
const BARS: f64 = 300.0;
const VALUES: f64 = 110.0;
const HEAD: f64 = 74.0;
const PANEL_HEAD: f64 = 34.0;
const MARGIN: f64 = 24.0;

const STYLE: &str = "text{font-family:'Inter','Segoe UI','Helvetica Neue',Arial,sans-serif;fill:#1f2933}\
.t{font-size:18px;font-weight:600}.s{font-size:12px;fill:#616e7c}.p{font-size:13px;font-weight:600}\
.n{font-size:12.5px}.v{font-size:12.5px;fill:#3e4c59}.g{stroke:#d9e2ec;stroke-width:1}\
.peer{fill:#9fb3c8}.ours{fill:#0b7285}";

/// The whole report as one SVG document.
pub(super) fn render(report: &Report) -> String {
    let columns: Vec<&Column> = report.columns.iter().filter(|c| c.plotted).collect();
    let groups = report.groups();
    let panel_w = NAMES + BARS + VALUES;
    let width = MARGIN * 2.0 + groups.len().max(1) as f64 * panel_w;
    let rows_max = groups.iter().map(|g| report.ranked(g).len()).max().unwrap_or(0);
    let panel_h = PANEL_HEAD + rows_max as f64 * (BAR + GAP) + 18.0;
    let height = HEAD + columns.len() as f64 * panel_h + 34.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, MARGIN, 34.0, "t", "start", &report.title);
    let m = &report.machine;
    let machine = format!("{} CPUs of {}, Linux {}, {} build", m.cpus, m.cpu, m.kernel, report.profile);
    text(&mut svg, MARGIN, 54.0, "s", "start", &machine);
    for (y, column) in columns.iter().enumerate() {
        for (x, group) in groups.iter().enumerate() {
            let at = (MARGIN + x as f64 * panel_w, HEAD + y as f64 * panel_h);
            panel(&mut svg, report, column, group, at);
        }
    }
    let versions: Vec<String> = report.versions.iter().map(|(name, v)| format!("{name} {v}")).collect();
    text(&mut svg, MARGIN, height - 14.0, "s", "start", &versions.join("   "));
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, report: &Report, column: &Column, group: &str, (x, y): (f64, f64)) {
    let better = match column.better {
        Better::Higher => " (more is better)",
        Better::Lower => " (less is better)",
        Better::Neither => "",
    };
    text(svg, x, y + 18.0, "p", "start", &format!("{}, {group}{better}", column.title));
    let rows = report.ranked(group);
    // One scale for all groups of a column, so that panels side by side can be compared by eye.
    let all = report.rows.iter().filter_map(|r| r.values.get(column.key));
    let scale_max = all.fold(0.0f64, |a, b| a.max(*b)).max(f64::MIN_POSITIVE);
    let (left, top) = (x + NAMES, y + PANEL_HEAD);
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
        let class = if row.name.starts_with("forebay") { "ours" } else { "peer" };
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{bar_y:.1}\" width=\"{w:.1}\" height=\"{BAR}\" rx=\"2\"/>"
        );
        text(svg, left + w + 6.0, base, "v", "start", &label(report, column, row, *value));
    }
}

/// The value, and in the primary column how it compares with the baseline.
fn label(report: &Report, column: &Column, row: &Row, value: f64) -> String {
    let plain = number(value, column.decimals);
    match report.ratio(row) {
        Some(r) if column.key == report.primary && report.baseline.as_ref() != Some(&row.name) => {
            format!("{plain}  ({r:.2}x)")
        }
        _ => plain,
    }
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, anchor: &str, content: &str) {
    let safe = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{safe}</text>");
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;

    #[test]
    fn the_plot_escapes_text_and_draws_one_bar_per_value() {
        let svg = sample().svg();
        assert!(svg.contains("600 &lt;photos&gt;") && !svg.contains("<photos>"));
        assert_eq!(svg.matches("rx=\"2\"").count(), 4);
        assert_eq!(svg.matches("class=\"ours\"").count(), 1);
        assert!(svg.contains("1,250  (2.50x)"));
        assert!(svg.trim_end().ends_with("</svg>"));
    }
}
