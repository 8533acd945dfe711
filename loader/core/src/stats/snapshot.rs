//! Figures at one moment, and their forms for programs.

use super::{WaitsSnapshot, bottleneck, help};
use std::fmt::Write as _;
use std::time::Duration;

/// One stage's figures at one moment; times are summed over its threads.
#[derive(Clone, Debug)]
pub struct StageSnapshot {
    /// The stage.
    pub name: &'static str,
    /// Time spent working.
    pub busy: Duration,
    /// Time spent waiting for the stage before it.
    pub input: Duration,
    /// Time spent waiting for the stage after it.
    pub output: Duration,
    /// Samples, shards or batches finished.
    pub items: u64,
    /// Bytes finished.
    pub bytes: u64,
}

/// Threads that work on samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Decode threads.
    pub decode: usize,
    /// Decode threads of a loader without `threads`: the CPUs of this process, shared by the ranks of the node.
    pub usable: usize,
}

/// All figures at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Time since the statistics were created.
    pub elapsed: Duration,
    /// Number of loaders that the figures are sums of.
    pub loaders: u32,
    /// Stages in data-flow order.
    pub stages: Vec<StageSnapshot>,
    /// Counters by name.
    pub counters: Vec<(&'static str, u64)>,
    /// Sentences about choices that the loader has made.
    pub notes: Vec<String>,
    /// Threads that work on samples.
    pub threads: Threads,
    /// Waits of the consumer for batches.
    pub waits: WaitsSnapshot,
}

/// Figures of a loader, and the labels of its metrics: `rank="0"`, may be empty.
pub type Labelled = (String, Snapshot);

/// Figures of several loaders as Prometheus text. Each loader has its own labels; a metric is described once.
pub fn prometheus(loaders: &[Labelled]) -> String {
    let mut out = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, lines: &dyn Fn(&Labelled, &mut String)| {
        let _ = writeln!(out, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} {kind}");
        loaders.iter().for_each(|loader| lines(loader, &mut out));
    };
    let comma = |labels: &str| if labels.is_empty() { "" } else { "," };
    let help = "seconds of a stage's threads at work, or waiting for input or output";
    metric("stage_seconds_total", "counter", help, &|(labels, figures), out| {
        for s in &figures.stages {
            for (kind, time) in [("busy", s.busy), ("input", s.input), ("output", s.output)] {
                let (name, comma, seconds) = (s.name, comma(labels), time.as_secs_f64());
                let _ = writeln!(
                    out,
                    "forebay_stage_seconds_total{{stage=\"{name}\",spent=\"{kind}\"{comma}{labels}}} {seconds}"
                );
            }
        }
    });
    for unit in ["items", "bytes"] {
        let value = |stage: &StageSnapshot| if unit == "items" { stage.items } else { stage.bytes };
        let (name, help) = (format!("stage_{unit}_total"), format!("{unit} that a stage has finished"));
        metric(&name, "counter", &help, &|(labels, figures), out| {
            for s in &figures.stages {
                let (stage, comma, value) = (s.name, comma(labels), value(s));
                let _ = writeln!(out, "forebay_{name}{{stage=\"{stage}\"{comma}{labels}}} {value}");
            }
        });
    }
    metric("batch_wait_seconds", "histogram", "wait of the loop for a batch", &|(labels, figures), out| {
        let (waits, comma) = (&figures.waits, comma(labels));
        let name = "forebay_batch_wait_seconds";
        for (bound, count) in waits.cumulative() {
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"{comma}{labels}}} {count}");
        }
        let (count, sum) = (waits.count(), waits.sum.as_secs_f64());
        let _ = writeln!(
            out,
            "{name}_bucket{{le=\"+Inf\"{comma}{labels}}} {count}\n{name}_sum{{{labels}}} {sum}\n\
             {name}_count{{{labels}}} {count}"
        );
    });
    for counter in Snapshot::counter_names(loaders.iter().map(|(_, figures)| figures)) {
        metric(&format!("{counter}_total"), "counter", &help::of_counter(counter), &|(labels, figures), out| {
            for (_, value) in figures.counters.iter().filter(|(name, _)| *name == counter) {
                let _ = writeln!(out, "forebay_{counter}_total{{{labels}}} {value}");
            }
        });
    }
    out
}

impl Snapshot {
    /// Returns the name of each counter of several loaders once, in the order of the first figures that have it.
    pub fn counter_names<'a>(all: impl Iterator<Item = &'a Self>) -> Vec<&'static str> {
        let mut names = Vec::new();
        for (name, _) in all.flat_map(|figures| &figures.counters) {
            if !names.contains(name) {
                names.push(*name);
            }
        }
        names
    }

    /// Prometheus text exposition, each line labelled with `labels` (`rank="0"`, may be empty).
    pub fn prometheus(&self, labels: &str) -> String {
        prometheus(&[(labels.to_owned(), self.clone())])
    }

    /// Returns the sum of the figures of several loaders, one for each device of a process. The elapsed time is the
    /// longest one.
    #[must_use]
    pub fn sum(mut all: Vec<Self>) -> Self {
        let others = all.split_off(all.len().min(1));
        let first = all.pop();
        let mut total = first.unwrap_or(Self {
            elapsed: Duration::ZERO,
            loaders: 0,
            stages: vec![],
            counters: vec![],
            notes: vec![],
            threads: Threads::default(),
            waits: WaitsSnapshot::default(),
        });
        for other in others {
            total.add(other);
        }
        total
    }

    fn add(&mut self, other: Self) {
        self.elapsed = self.elapsed.max(other.elapsed);
        self.loaders += other.loaders;
        self.waits.add(&other.waits);
        self.threads.decode += other.threads.decode;
        self.threads.usable += other.threads.usable;
        for stage in other.stages {
            match self.stages.iter_mut().find(|known| known.name == stage.name) {
                Some(known) => known.add(&stage),
                None => self.stages.push(stage),
            }
        }
        for (name, value) in other.counters {
            match self.counters.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known += value,
                None => self.counters.push((name, value)),
            }
        }
        let new = other.notes.into_iter().filter(|note| !self.notes.contains(note)).collect::<Vec<_>>();
        self.notes.extend(new);
    }

    /// Returns all figures as JSON: `bottleneck`, one line that names the limit of the rate; `limit`, its short name;
    /// `elapsed_s`, `threads`, `waits`, `stages`, `counters`, `notes`.
    pub fn json(&self) -> serde_json::Value {
        let figures = self.figures();
        let limit = bottleneck(&figures, None);
        let mut all = serde_json::json!({"bottleneck": limit.to_string(), "limit": limit.name});
        if let (Some(all), serde_json::Value::Object(figures)) = (all.as_object_mut(), figures) {
            all.extend(figures);
        }
        all
    }

    fn figures(&self) -> serde_json::Value {
        let stages = self.stages.iter().map(|s| {
            let figures = serde_json::json!({
                "busy_s": s.busy.as_secs_f64(),
                "input_s": s.input.as_secs_f64(),
                "output_s": s.output.as_secs_f64(),
                "items": s.items,
                "bytes": s.bytes,
            });
            (s.name.to_owned(), figures)
        });
        let counters = self.counters.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
        serde_json::json!({
            "elapsed_s": self.elapsed.as_secs_f64(),
            "threads": {"decode": self.threads.decode, "usable": self.threads.usable},
            "waits": self.waits.json(),
            "stages": serde_json::Map::from_iter(stages),
            "counters": serde_json::Map::from_iter(counters),
            "notes": self.notes,
        })
    }
}

impl StageSnapshot {
    fn add(&mut self, other: &Self) {
        self.busy += other.busy;
        self.input += other.input;
        self.output += other.output;
        self.items += other.items;
        self.bytes += other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(stages: &[(&'static str, u64)], counters: &[(&'static str, u64)], note: &str) -> Snapshot {
        let stage = |&(name, items): &(&'static str, u64)| {
            let busy = Duration::from_secs(items);
            StageSnapshot { name, busy, input: busy * 2, output: busy * 3, items, bytes: items * 10 }
        };
        let stages = stages.iter().map(stage).collect();
        Snapshot {
            elapsed: Duration::from_secs(5),
            loaders: 1,
            stages,
            counters: counters.to_vec(),
            notes: vec![note.to_owned()],
            threads: Threads { decode: 2, usable: 3 },
            waits: WaitsSnapshot::default(),
        }
    }

    #[test]
    fn figures_of_several_loaders_are_summed_by_name() {
        let all = vec![
            snapshot(&[("read", 1), ("next", 2)], &[("a", 1)], "same"),
            snapshot(&[("next", 3), ("place", 4)], &[("b", 2), ("a", 5)], "same"),
        ];
        let sum = Snapshot::sum(all);
        let items: Vec<_> = sum.stages.iter().map(|stage| (stage.name, stage.items, stage.output.as_secs())).collect();
        assert_eq!(items, [("read", 1, 3), ("next", 5, 15), ("place", 4, 12)]);
        assert_eq!((sum.counters, sum.notes, sum.loaders), (vec![("a", 6), ("b", 2)], vec!["same".to_owned()], 2));
        assert_eq!((sum.elapsed, sum.threads), (Duration::from_secs(5), Threads { decode: 4, usable: 6 }));
    }

    #[test]
    fn the_json_begins_with_the_bottleneck_and_has_seconds() {
        let json = snapshot(&[("read", 1)], &[("a", 1)], "why").json();
        let keys: Vec<_> = json.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["bottleneck", "limit", "elapsed_s", "threads", "waits", "stages", "counters", "notes"]);
        assert_eq!(json["stages"]["read"]["input_s"], 2.0);
        assert_eq!(json["bottleneck"], "unknown: no batch was delivered yet");
    }
}
