//! Figures of a loader, at one moment or of an interval.

use crate::text::wrapped;
use forebay_loader::monitor::Job;
use forebay_loader::stats::{WaitsSnapshot, bottleneck};
use serde_json::{Value, json};

/// Returns the figures of the loaders of a process.
pub(super) fn loaders(job: &Job) -> &[Value] {
    job.figures["loaders"].as_array().map_or(&[], Vec::as_slice)
}

/// Figures of a loader: with rates, waits and the bottleneck since an `earlier` moment, which is some seconds ago.
pub(super) fn record(job: &Job, now: &Value, earlier: Option<(&Value, f64)>) -> Value {
    let before = earlier.map(|(before, _)| before);
    let batches = |figures: &Value| figures["waits"]["count"].as_f64().unwrap_or(0.0);
    let rate = |value: &dyn Fn(&Value) -> f64| earlier.map(|(before, seconds)| (value(now) - value(before)) / seconds);
    let per_second = rate(&batches);
    let counter = |name: &str| now["counters"][name].as_u64().unwrap_or(0);
    let store = rate(&|figures| figures["counters"]["store_bytes"].as_f64().unwrap_or(0.0));
    let wait = |share: f64| {
        let of_start = || now["waits"][format!("p{:.0}_s", 100.0 * share)].as_f64();
        before.map_or_else(of_start, |before| waits(now).since(&waits(before)).percentile(share))
    };
    let limit = bottleneck(now, before);
    json!({
        "pid": job.figures["pid"],
        "target": job.target.to_string(),
        "rank": now["rank"],
        "world_size": now["world_size"],
        "source": now["source"],
        "batches": batches(now),
        "batches_per_s": per_second,
        "samples_per_s": per_second.map(|rate| rate * now["batch_size"].as_f64().unwrap_or(0.0)),
        "waiting_share": waiting_share(now, before),
        "wait_p50_s": wait(0.5),
        "wait_p95_s": wait(0.95),
        "wait_p99_s": wait(0.99),
        "store_bytes": counter("store_bytes"),
        "store_bytes_per_s": store,
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

/// Lines about a loader below the table.
pub(super) fn details(record: &Value, columns: usize) -> String {
    let text = |name: &str| record[name].as_str().unwrap_or_default();
    let losses =
        [("store_retries", "retries"), ("samples_skipped", "skipped samples"), ("cache_evicted", "evicted shards")];
    let losses = losses.iter().filter_map(|(name, words)| {
        record[*name].as_u64().filter(|count| *count > 0).map(|count| format!(", {count} {words}"))
    });
    let (rank, losses) = (&record["rank"], losses.collect::<String>());
    let limit = wrapped(&format!("limited by {}", text("bottleneck")), columns);
    format!("\nrank {rank}, {}{losses}\n{limit}", text("source"))
}

/// Cells of the table.
pub(super) fn row(record: &Value) -> Vec<String> {
    let number = |name: &str, form: &dyn Fn(f64) -> String| record[name].as_f64().map_or_else(|| "-".to_owned(), form);
    let process = match record["pid"].as_u64() {
        Some(pid) => pid.to_string(),
        None => record["target"].as_str().unwrap_or_default().to_owned(),
    };
    vec![
        process,
        format!("{}/{}", record["rank"], record["world_size"]),
        number("batches", &|count| format!("{count:.0}")),
        number("samples_per_s", &|rate| format!("{rate:.0}")),
        number("waiting_share", &|share| format!("{:.0}%", 100.0 * share)),
        number("wait_p50_s", &time),
        number("wait_p95_s", &time),
        number("wait_p99_s", &time),
        number("store_bytes_per_s", &|rate| format!("{:.0}MB/s", rate / 1e6)),
    ]
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.0}us", s * 1e6),
        s if s < 1.0 => format!("{:.0}ms", s * 1e3),
        s => format!("{s:.1}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::monitor::Target;

    fn figures(waited: f64, worked: f64, counts: &[u64]) -> Value {
        let next = json!({"input_s": waited, "output_s": worked, "items": 9});
        let waits = json!({"count": counts.iter().sum::<u64>(), "p50_s": 1.0});
        json!({"rank": 0, "batch_size": 4, "waits": waits, "wait_counts": counts, "stages": {"next": next}})
    }

    #[test]
    fn rates_waits_and_the_limit_are_of_the_interval() {
        let job = Job { target: Target::Process(7), figures: json!({"pid": 7}) };
        let (before, now) = (figures(8.0, 2.0, &[0, 0, 90]), figures(8.1, 11.9, &[10, 0, 90]));
        let since_start = record(&job, &now, None);
        assert_eq!(since_start["samples_per_s"], Value::Null);
        assert!(since_start["waiting_share"].as_f64() > Some(0.4));
        let of_interval = record(&job, &now, Some((&before, 10.0)));
        assert_eq!((&of_interval["samples_per_s"], &of_interval["batches"]), (&json!(4.0), &json!(100.0)));
        assert!(of_interval["waiting_share"].as_f64() < Some(0.02));
        assert!(of_interval["wait_p50_s"].as_f64() < since_start["wait_p50_s"].as_f64());
        assert_eq!(of_interval["limit"], "slow consumer");
        let idle = record(&job, &now, Some((&now, 10.0)));
        assert_eq!((&idle["waiting_share"], &idle["wait_p99_s"]), (&Value::Null, &Value::Null));
    }
}
