//! Figures of a loader, at one moment or of an interval.

use crate::text::{one_line, wrapped};
use forebay_loader::monitor::Job;
use forebay_loader::stats::interval;
use serde_json::{Value, json};

/// Returns the figures of the loaders of a process.
pub(super) fn loaders(job: &Job) -> &[Value] {
    job.figures["loaders"].as_array().map_or(&[], Vec::as_slice)
}

/// Figures of a loader: with rates, waits and the bottleneck since an `earlier` moment.
pub(super) fn record(job: &Job, now: &Value, earlier: Option<&Value>) -> Value {
    let mut record = json!({
        "pid": job.figures["pid"],
        "target": job.target.to_string(),
        "rank": now["rank"],
        "world_size": now["world_size"],
        "source": now["source"],
    });
    if let (Some(record), Value::Object(figures)) = (record.as_object_mut(), interval(now, earlier)) {
        record.extend(figures);
    }
    record
}

/// Lines below the table: a paragraph for the loaders of a job that have the same limit, with the sentence of the one
/// that waits longest.
pub(super) fn details(records: &[Value], columns: usize) -> Vec<String> {
    let is_alike = |a: &Value, b: &Value| ["source", "world_size", "limit"].iter().all(|key| a[*key] == b[*key]);
    let mut groups: Vec<(&Value, Vec<&Value>)> = Vec::new();
    for record in records {
        match groups.iter_mut().find(|(first, _)| is_alike(first, record)) {
            Some((_, group)) => group.push(record),
            None => groups.push((record, vec![record])),
        }
    }
    groups.into_iter().map(|(first, group)| paragraph(first, &group, columns)).collect()
}

fn paragraph(first: &Value, group: &[&Value], columns: usize) -> String {
    let losses =
        [("store_retries", "retries"), ("samples_skipped", "skipped samples"), ("cache_evicted", "evicted shards")];
    let losses = losses.map(|(name, words)| (group.iter().filter_map(|record| record[name].as_u64()).sum(), words));
    let losses = losses.into_iter().filter(|(count, _): &(u64, _)| *count > 0);
    let losses: String = losses.map(|(count, words)| format!(", {count} {words}")).collect();
    let share = |record: &Value| record["waiting_share"].as_f64().unwrap_or(0.0);
    let longest = group.iter().max_by(|a, b| share(a).total_cmp(&share(b))).unwrap_or(&first);
    let limit = format!("limited by {}", longest["bottleneck"].as_str().unwrap_or_default());
    let (ranks, source) = (ranks(group), one_line(first["source"].as_str().unwrap_or_default()));
    format!("\n{ranks}, {source}{losses}\n{}", wrapped(&limit, columns))
}

/// Ranks of loaders, which are in their order: `rank 3`, `ranks 0 to 7`, or each of them.
fn ranks(group: &[&Value]) -> String {
    let mut ranks: Vec<u64> = group.iter().filter_map(|record| record["rank"].as_u64()).collect();
    ranks.dedup();
    match ranks.as_slice() {
        [only] => format!("rank {only}"),
        [first, .., last] if last - first == ranks.len() as u64 - 1 && ranks.len() > 2 => {
            format!("ranks {first} to {last}")
        }
        all => format!("ranks {}", all.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Cells of the table.
pub(super) fn row(record: &Value) -> Vec<String> {
    let number = |name: &str, form: &dyn Fn(f64) -> String| record[name].as_f64().map_or_else(|| "-".to_owned(), form);
    let process = match record["pid"].as_u64() {
        Some(pid) => pid.to_string(),
        None => record["target"].as_str().unwrap_or_default().to_owned(),
    };
    let has_store = record["store_bytes"].as_u64() > Some(0);
    vec![
        process,
        format!("{}/{}", record["rank"], record["world_size"]),
        number("batches", &|count| format!("{count:.0}")),
        number("samples_per_s", &|rate| format!("{rate:.0}")),
        number("waiting_share", &|share| format!("{:.0}%", 100.0 * share)),
        number("wait_p50_s", &time),
        number("wait_p95_s", &time),
        number("wait_p99_s", &time),
        number("store_bytes_per_s", &|rate| if has_store { format!("{:.0}MB/s", rate / 1e6) } else { "-".to_owned() }),
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

    #[test]
    fn ranks_with_the_same_limit_share_a_paragraph_with_the_longest_wait() {
        let record = |rank: u64, share: f64, limit: &str| {
            json!({"rank": rank, "world_size": 8, "source": "s3://b\u{1b}", "waiting_share": share, "limit": limit,
                "store_retries": 2, "bottleneck": format!("{limit} of {share}")})
        };
        let mut records: Vec<Value> = (0..8).map(|rank| record(rank, rank as f64 / 10.0, "slow store")).collect();
        let all = details(&records, 80);
        assert_eq!(all, ["\nranks 0 to 7, s3://b\\u{1b}, 16 retries\nlimited by slow store of 0.7"]);
        records[3] = record(3, 0.9, "slow disk");
        let titles: Vec<String> = details(&records, 80).iter().map(|lines| lines[1..].replace('\n', ": ")).collect();
        assert!(titles[0].starts_with("ranks 0, 1, 2, 4, 5, 6, 7, s3://b"), "{titles:?}");
        assert!(titles[1].ends_with("rank 3, s3://b\\u{1b}, 2 retries: limited by slow disk of 0.9"), "{titles:?}");
    }
}
