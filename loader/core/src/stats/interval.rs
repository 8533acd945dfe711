//! Figures of a loader of an interval, for people and for systems that draw curves.

use super::{Snapshot, WaitsSnapshot, bottleneck};
use serde_json::{Value, json};

impl Snapshot {
    /// Returns the figures as [`json`](Self::json) has them, and what [`interval`] needs in addition: the counts of the
    /// histogram of waits, and the rows of a batch.
    pub fn observed(&self, batch_size: u32) -> Value {
        let mut figures = self.json();
        figures["wait_counts"] = self.waits.counts().into();
        figures["batch_size"] = batch_size.into();
        figures
    }
}

/// Returns rates, waits and the bottleneck since an `earlier` moment of the same loader, or since its start. Totals are
/// since the start. A figure that is not known is null.
pub fn interval(now: &Value, earlier: Option<&Value>) -> Value {
    let elapsed = |figures: &Value| figures["elapsed_s"].as_f64().unwrap_or(0.0);
    // A different loader may have the place of an earlier one.
    let earlier = earlier.filter(|before| elapsed(before) < elapsed(now));
    let batches = |figures: &Value| figures["waits"]["count"].as_f64().unwrap_or(0.0);
    let rate = |value: &dyn Fn(&Value) -> f64| {
        earlier.map(|before| (value(now) - value(before)) / (elapsed(now) - elapsed(before)))
    };
    let per_second = rate(&batches);
    let counter = |name: &str| now["counters"][name].as_u64().unwrap_or(0);
    let wait = |share: f64| {
        let of_start = || now["waits"][format!("p{:.0}_s", 100.0 * share)].as_f64();
        earlier.map_or_else(of_start, |before| waits(now).since(&waits(before)).percentile(share))
    };
    let limit = bottleneck(now, earlier);
    json!({
        "batches": batches(now),
        "batches_per_s": per_second,
        "samples_per_s": per_second.map(|rate| rate * now["batch_size"].as_f64().unwrap_or(0.0)),
        "waiting_share": waiting_share(now, earlier),
        "wait_p50_s": wait(0.5),
        "wait_p95_s": wait(0.95),
        "wait_p99_s": wait(0.99),
        "store_bytes": counter("store_bytes"),
        "store_bytes_per_s": rate(&|figures| figures["counters"]["store_bytes"].as_f64().unwrap_or(0.0)),
        "store_retries": counter("store_retries"),
        "cache_evicted": counter("cache_evicted"),
        "samples_skipped": counter("samples_skipped"),
        "elapsed_s": now["elapsed_s"],
        "limit": limit.name,
        "bottleneck": limit.to_string(),
    })
}

fn waits(figures: &Value) -> WaitsSnapshot {
    let counts = figures["wait_counts"].as_array().map(|counts| counts.iter().filter_map(Value::as_u64).collect());
    WaitsSnapshot::of_counts(counts.unwrap_or_default())
}

/// Share of the loop's time in which it waited for batches; `None` if the loop did nothing.
fn waiting_share(now: &Value, before: Option<&Value>) -> Option<f64> {
    let seconds = |key: &str| {
        let of = |figures: &Value| figures["stages"]["next"][key].as_f64().unwrap_or(0.0);
        (of(now) - before.map_or(0.0, of)).max(0.0)
    };
    let (waited, worked) = (seconds("input_s"), seconds("output_s"));
    (waited + worked > 0.0).then(|| waited / (waited + worked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(elapsed: f64, waited: f64, worked: f64, counts: &[u64]) -> Value {
        let next = json!({"input_s": waited, "output_s": worked, "items": 9});
        let waits = json!({"count": counts.iter().sum::<u64>(), "p50_s": 1.0});
        json!({"elapsed_s": elapsed, "batch_size": 4, "waits": waits, "wait_counts": counts, "stages": {"next": next}})
    }

    #[test]
    fn rates_waits_and_the_limit_are_of_the_interval() {
        let (before, now) = (figures(10.0, 8.0, 2.0, &[0, 0, 90]), figures(20.0, 8.1, 11.9, &[10, 0, 90]));
        let since_start = interval(&now, None);
        assert_eq!(since_start["samples_per_s"], Value::Null);
        assert!(since_start["waiting_share"].as_f64() > Some(0.4));
        let of_interval = interval(&now, Some(&before));
        assert_eq!((&of_interval["samples_per_s"], &of_interval["batches"]), (&json!(4.0), &json!(100.0)));
        assert!(of_interval["waiting_share"].as_f64() < Some(0.02));
        assert!(of_interval["wait_p50_s"].as_f64() < since_start["wait_p50_s"].as_f64());
        assert_eq!(of_interval["limit"], "slow consumer");
        let idle = interval(&figures(30.0, 8.1, 11.9, &[10, 0, 90]), Some(&now));
        assert_eq!((&idle["waiting_share"], &idle["wait_p99_s"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn figures_of_an_earlier_loader_are_no_start_of_an_interval() {
        let (old, new) = (figures(90.0, 60.0, 30.0, &[0, 0, 90]), figures(2.0, 1.0, 1.0, &[3]));
        assert_eq!(interval(&new, Some(&old)), interval(&new, None));
    }
}
