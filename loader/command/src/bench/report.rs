//! Rates, and the limits of the machine.

use super::epoch::Epoch;
use super::plain::Plain;
use crate::output::Output;
use crate::text;
use forebay_loader::stats::{Bottleneck, bottleneck};
use serde_json::{Value, json};

/// Measured rates.
pub(super) struct Report {
    pub(super) plain: Option<Plain>,
    pub(super) epoch: Epoch,
    /// Samples of the data set, and their bytes in the store.
    pub(super) total: (u64, u64),
}

/// A row of the table.
struct Rate {
    part: &'static str,
    samples_per_s: f64,
    bytes_per_s: Option<f64>,
    remark: String,
}

impl Report {
    pub(super) fn print(&self, output: &Output) {
        let (rates, limit) = (self.rates(), self.limit());
        if output.is_json() {
            rates.iter().for_each(|rate| output.line(&rate.json(), String::new));
            let record = json!({"part": "limit", "limit": limit.name, "what": limit.what, "change": limit.change});
            output.line(&record, String::new);
            return;
        }
        output.table(&["", "samples/s", "MB/s", ""], rates.iter().map(Rate::row));
        let change = if limit.change.is_empty() { "nothing" } else { &limit.change };
        let lines = ["limited by", "change:"].into_iter().zip([limit.what.as_str(), change]);
        let lines = lines.map(|(name, words)| text::wrapped(&format!("{name} {words}"), output.size().0));
        output.bytes(format!("\n{}\n", lines.collect::<Vec<_>>().join("\n")).as_bytes());
    }

    /// The reading, the decoding and the loader. Bytes count stored samples.
    fn rates(&self) -> Vec<Rate> {
        let (samples, bytes) = (self.total.0.max(1) as f64, self.total.1 as f64);
        let each = (bytes / samples).max(f64::MIN_POSITIVE);
        let mut rates = Vec::new();
        if let Some(Plain { is_local, bytes, seconds, has_failed }) = self.plain {
            let rate = bytes as f64 / seconds.max(f64::MIN_POSITIVE);
            let (part, reads) = if is_local { ("disk", "reads past the page cache") } else { ("store", "bare GETs") };
            let failed = if has_failed { ", and some were refused" } else { "" };
            let remark = format!("{reads}, 16 at a time, {} in {seconds:.1} s{failed}", text::bytes(bytes));
            rates.push(Rate { part, samples_per_s: rate / each, bytes_per_s: Some(rate), remark });
        }
        let figures = &self.epoch.figures;
        let threads = figures["threads"]["decode"].as_u64().unwrap_or(0);
        let decode = |key: &str| figures["stages"]["decode"][key].as_f64().unwrap_or(0.0);
        if decode("busy_s") > 0.0 {
            let of_one = decode("items") / decode("busy_s");
            let samples_per_s = of_one * threads as f64;
            let remark = format!("{}, {of_one:.0} samples/s each", text::counted(threads, "thread"));
            rates.push(Rate { part: "decoding", samples_per_s, bytes_per_s: Some(samples_per_s * each), remark });
        }
        let Epoch { samples, seconds, first_batch_s, .. } = self.epoch;
        let samples_per_s = samples as f64 / seconds.max(f64::MIN_POSITIVE);
        let least = rates.iter().map(|rate| rate.samples_per_s).min_by(f64::total_cmp);
        let share = least
            .map_or_else(String::new, |least| format!("{:.0}% of the lowest limit, ", 100.0 * samples_per_s / least));
        let loaded = format!(
            "{} in {seconds:.1} s, the first batch after {first_batch_s:.2} s",
            text::counted(samples, "sample")
        );
        let (bytes_per_s, remark) = (Some(samples_per_s * each), share + &loaded);
        rates.push(Rate { part: "loader", samples_per_s, bytes_per_s, remark });
        rates
    }

    fn limit(&self) -> Bottleneck {
        bottleneck(&self.epoch.figures, None)
    }
}

impl Rate {
    fn json(&self) -> Value {
        let Self { part, samples_per_s, bytes_per_s, remark } = self;
        json!({"part": part, "samples_per_s": samples_per_s, "bytes_per_s": bytes_per_s, "remark": remark})
    }

    fn row(&self) -> Vec<String> {
        let megabytes = self.bytes_per_s.map_or_else(|| "-".to_owned(), |rate| format!("{:.1}", rate / 1e6));
        vec![self.part.to_owned(), format!("{:.0}", self.samples_per_s), megabytes, self.remark.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_is_compared_with_reading_and_decoding() {
        let stage = |busy: f64, input: f64, output: f64, items: u64| {
            let bytes = 100_000 * items;
            json!({"busy_s": busy, "input_s": input, "output_s": output, "items": items, "bytes": bytes})
        };
        let stages = json!({"decode": stage(19.0, 1.0, 0.0, 1900), "next": stage(0.0, 9.9, 0.1, 30)});
        let figures = json!({"stages": stages, "threads": {"decode": 2, "usable": 2}, "counters": {}});
        let epoch = Epoch { samples: 1900, seconds: 10.0, first_batch_s: 0.2, figures };
        let plain = Some(Plain { is_local: true, bytes: 300_000_000, seconds: 3.0, has_failed: false });
        let report = Report { plain, epoch, total: (1000, 100_000_000) };
        let rates = report.rates();
        let found: Vec<_> = rates.iter().map(|rate| (rate.part, rate.samples_per_s.round())).collect();
        assert_eq!(found, [("disk", 1000.0), ("decoding", 200.0), ("loader", 190.0)]);
        assert!(rates[2].remark.starts_with("95% of the lowest limit, 1,900 samples in 10.0 s"), "{}", rates[2].remark);
        assert_eq!(report.limit().name, "slow decode");
    }
}
