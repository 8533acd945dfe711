//! Comparison of the ranks of a job: in each step all of them wait for the slowest one.

use serde_json::{Value, json};

/// Excess of a rank's share of waiting over the usual one from which it is slow.
const EXCESS: f64 = 0.2;

/// Returns the rank that waits far longer for its data than the other ranks of its job do: `limit`, `rank`, `pid`,
/// `waiting_share`, `others_waiting_share` (their median), and `message`.
pub(super) fn slow_rank(records: &[Value]) -> Option<Value> {
    let share = |record: &Value| record["waiting_share"].as_f64();
    let slowest = records.iter().max_by(|a, b| share(a).unwrap_or(0.0).total_cmp(&share(b).unwrap_or(0.0)))?;
    let is_other = |other: &&Value| {
        other["rank"] != slowest["rank"] && ["source", "world_size"].iter().all(|key| other[*key] == slowest[*key])
    };
    let mut others: Vec<f64> = records.iter().filter(is_other).filter_map(share).collect();
    others.sort_by(f64::total_cmp);
    let (usual, longest) = (*others.get(others.len() / 2)?, share(slowest)?);
    if longest < usual + EXCESS {
        return None;
    }
    let message = format!(
        "one slow rank: rank {} waited {:.0}% of its time for batches, the others {:.0}% (median), and all ranks wait \
         for it in each step; its limit is: {}",
        slowest["rank"],
        100.0 * longest,
        100.0 * usual,
        slowest["limit"].as_str().unwrap_or_default()
    );
    Some(json!({
        "limit": "one slow rank",
        "rank": slowest["rank"],
        "pid": slowest["pid"],
        "waiting_share": longest,
        "others_waiting_share": usual,
        "message": message,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(shares: &[f64]) -> Vec<Value> {
        let rank = |(rank, share): (usize, &f64)| {
            json!({"rank": rank, "pid": 100 + rank, "world_size": 8, "source": "s3://b", "waiting_share": share,
                "limit": "slow store"})
        };
        shares.iter().enumerate().map(rank).collect()
    }

    #[test]
    fn a_rank_that_waits_far_longer_than_the_rest_is_named_with_its_reason() {
        let found = slow_rank(&job(&[0.02, 0.04, 0.03, 0.71, 0.01, 0.02, 0.05, 0.03])).expect("a slow rank");
        assert_eq!((&found["rank"], &found["pid"], &found["limit"]), (&json!(3), &json!(103), &json!("one slow rank")));
        let message = found["message"].as_str().expect("a text");
        assert!(message.contains("rank 3 waited 71% of its time for batches, the others 3%"), "{message}");
        assert!(message.ends_with("its limit is: slow store"), "{message}");
    }

    #[test]
    fn the_slow_rank_of_a_staged_job_is_found() {
        // Of bench/scripts/bottlenecks.py: three ranks, one with an empty cache and a slow store.
        let found = slow_rank(&job(&[0.000_016, 0.986, 0.000_015])).expect("a slow rank");
        assert_eq!((&found["rank"], &found["waiting_share"]), (&json!(1), &json!(0.986)));
    }

    #[test]
    fn ranks_that_are_alike_or_of_different_jobs_have_no_slow_one() {
        assert_eq!(slow_rank(&job(&[0.6, 0.7, 0.75])), None);
        assert_eq!(slow_rank(&job(&[0.9])), None);
        assert_eq!(slow_rank(&[]), None);
        let mut different = job(&[0.0, 0.9]);
        different[0]["source"] = json!("s3://other");
        assert_eq!(slow_rank(&different), None);
    }
}
