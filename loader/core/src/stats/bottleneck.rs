//! One line about the stage that limits a loader's rate, in the order of the table on the documentation's page about
//! tuning.

use super::{Snapshot, StageSnapshot};
use std::time::Duration;

/// Largest share of the loop's time waiting for batches with which the loader counts as fast enough.
const KEEPS_UP: f64 = 0.05;

/// Share of its threads' time from which decoding counts as the limit.
const BUSY: f64 = 0.7;

/// Stage before decoding that may limit the rate.
struct Cause {
    stage: &'static str,
    /// The time that shows it.
    time: fn(&StageSnapshot) -> Duration,
    /// Words before the time.
    words: &'static str,
}

const CAUSES: [Cause; 4] = [
    Cause { stage: "fetch", time: |stage| stage.busy, words: "the network or the store: downloads took" },
    Cause { stage: "unpack", time: |stage| stage.busy, words: "decompression of shards: it took" },
    Cause {
        stage: "publish",
        time: |stage| stage.busy,
        words: "the local disk's write rate: checking and writing shards took",
    },
    Cause { stage: "read", time: |stage| stage.input, words: "the local disk's read rate: reads waited" },
];

impl Snapshot {
    /// Returns one line that names the limit of the rate.
    pub fn bottleneck(&self) -> String {
        let stage = |name| self.stages.iter().find(|stage| stage.name == name);
        let Some(next) = stage("next").filter(|next| next.items > 0) else {
            return "unknown: no batch was delivered yet".to_owned();
        };
        let elapsed = self.elapsed.as_secs_f64();
        let waited = next.input.as_secs_f64() / f64::from(self.loaders.max(1));
        let waits = format!("the loop waited {waited:.1} of {elapsed:.1} s for batches");
        if waited <= KEEPS_UP * elapsed {
            return format!("the training step: {waits}");
        }
        let share = |stage: &StageSnapshot| {
            let threads = (stage.busy + stage.input + stage.output).as_secs_f64();
            if threads > 0.0 { stage.busy.as_secs_f64() / threads } else { 0.0 }
        };
        if let Some(mapped) = stage("map").map(share).filter(|share| *share >= BUSY) {
            return format!(
                "the function of `map`: its workers were busy {:.0}% of the time, and {waits}",
                100.0 * mapped
            );
        }
        let decode = stage("decode");
        let worked = decode.map_or(0.0, |decode| decode.busy.as_secs_f64());
        let busy = decode.map_or(0.0, share);
        let percent = 100.0 * busy;
        if busy >= BUSY {
            return format!("decoding, by the CPUs: its threads were busy {percent:.0}% of the time, and {waits}");
        }
        let seconds = |cause: &Cause| Some((cause.time)(stage(cause.stage)?).as_secs_f64());
        let causes = CAUSES.iter().filter_map(|cause| Some((seconds(cause)?, cause.words)));
        match causes.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((seconds, words)) if seconds > worked => {
                format!("{words} {seconds:.1} s, summed over threads, and {waits}")
            }
            _ => format!(
                "unclear: decode threads were busy {percent:.0}% of the time, and {waits}; a larger `prefetch` evens \
                 out uneven samples"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::WaitsSnapshot;
    use super::*;

    /// Figures of ten seconds; `stages` has busy and input seconds.
    fn line(waited: u64, items: u64, loaders: u32, stages: &[(&'static str, u64, u64)]) -> String {
        let seconds = Duration::from_secs;
        let mut all = vec![StageSnapshot {
            name: "next",
            busy: seconds(0),
            input: Duration::from_millis(waited),
            output: seconds(0),
            items,
            bytes: 0,
        }];
        for name in ["fetch", "unpack", "publish", "read", "decode", "map"] {
            let (_, busy, input) = stages.iter().find(|stage| stage.0 == name).copied().unwrap_or((name, 0, 0));
            all.push(StageSnapshot {
                name,
                busy: seconds(busy),
                input: seconds(input),
                output: seconds(0),
                items: 1,
                bytes: 0,
            });
        }
        let waits = WaitsSnapshot::default();
        let (counters, notes) = (vec![], vec![]);
        let line = Snapshot { elapsed: seconds(10), loaders, stages: all, counters, notes, waits }.bottleneck();
        assert!(!line.contains('\n'), "{line}");
        line
    }

    #[test]
    fn the_line_names_the_stage_that_limits() {
        for (found, begin) in [
            (line(0, 0, 1, &[]), "unknown: no batch was delivered yet"),
            (line(100, 9, 1, &[("decode", 5, 5)]), "the training step: the loop waited 0.1 of 10.0 s for batches"),
            (
                line(4000, 9, 1, &[("decode", 9, 1)]),
                "decoding, by the CPUs: its threads were busy 90% of the time, and the loop waited 4.0",
            ),
            (
                line(8000, 9, 1, &[("decode", 2, 18), ("fetch", 12, 0), ("read", 1, 3)]),
                "the network or the store: downloads took 12.0 s",
            ),
            (
                line(8000, 9, 1, &[("decode", 2, 18), ("unpack", 6, 0), ("fetch", 3, 0)]),
                "decompression of shards: it took 6.0 s",
            ),
            (
                line(8000, 9, 1, &[("decode", 2, 18), ("publish", 6, 0), ("fetch", 3, 0)]),
                "the local disk's write rate: checking and writing",
            ),
            (line(8000, 9, 1, &[("decode", 2, 18), ("read", 1, 9)]), "the local disk's read rate: reads waited 9.0 s"),
            (
                line(8000, 9, 1, &[("decode", 2, 2)]),
                "unclear: decode threads were busy 50% of the time, and the loop waited 8.0 of 10.0 s",
            ),
            (
                line(8000, 9, 1, &[("decode", 9, 1), ("map", 38, 2)]),
                "the function of `map`: its workers were busy 95% of the time, and the loop waited 8.0",
            ),
            (line(8000, 9, 1, &[("decode", 9, 1), ("map", 2, 38)]), "decoding, by the CPUs"),
            // The figures of several devices are divided by their number.
            (line(800, 9, 2, &[("decode", 9, 1)]), "the training step: the loop waited 0.4 of 10.0 s"),
        ] {
            assert!(found.starts_with(begin), "{found}");
        }
    }
}
