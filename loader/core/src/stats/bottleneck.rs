//! The limit of a loader's rate, found in its figures: a pure function, with the order of the table on the
//! documentation's page about tuning.
//!
//! The search goes from the loop back to the store. The first stage that works all the time is the limit. If decode
//! threads have no work, it is the part that they wait for: shards, reads, or batches that may not begin yet.

use serde_json::Value;

/// Largest share of the loop's time waiting for batches with which the loader counts as fast enough.
const KEEPS_UP: f64 = 0.05;

/// Share of its threads' time from which a stage counts as the limit.
const BUSY: f64 = 0.7;

/// Share of a wait from which a reason for it counts.
const MOST: f64 = 0.5;

/// Threads with a CPU or in the queue for one, at least, if one of them has Python's lock and the others wait for it.
const LOCK_HELD: f64 = 0.6;

/// CPUs that such threads use together at most. The figures of a thread that is switched have some error.
const LOCK_CPUS_MAX: f64 = 1.25;

/// Share of such threads in that state at most: those that wait for the lock look for it 200 times a second, and on a
/// machine with too much work are in the queue each time.
const LOCK_READY_MAX: f64 = 0.8;

/// Share of that time on a CPU from which threads have work: others are in the queue after each wait for something.
const LOCK_WORKS: f64 = 0.02;

/// Pixels of a picture for each pixel of a batch with which no detail is lost: a crop of a quarter of the picture, half
/// of each side, has as many pixels as the batch. The time of a decode is in proportion to the pixels of the file.
const DETAILED: f64 = 4.0;

/// Time of a store or a disk for the data of which the rest of the loader makes batches in 1, from which it counts as
/// slow. With a faster one the first epoch takes at most twice as long as the ones that read from here.
const SLOW: f64 = 2.0;

/// Share of the requests to a store from which those that it refuses as too many count.
const THROTTLED: f64 = 0.01;

/// The limit of a loader's rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bottleneck {
    /// Short name, such as "slow store".
    pub name: &'static str,
    /// The slow part, with the figures that show it.
    pub what: String,
    /// The change to make; empty if nothing is to be changed.
    pub change: String,
}

impl std::fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        if self.change.is_empty() { Ok(()) } else { write!(f, "; {}", self.change) }
    }
}

/// Returns the limit of the rate in figures as [`Snapshot::json`](super::Snapshot::json) has them, or in those since
/// the figures of an `earlier` moment.
pub fn bottleneck(now: &Value, earlier: Option<&Value>) -> Bottleneck {
    let figures = Figures { now, earlier };
    let (waited, loop_s) = (figures.stage("next").input, figures.loop_s());
    let waits = format!("the loop waited {waited:.1} of {loop_s:.1} s for batches");
    if now["stages"]["next"]["items"].as_u64().unwrap_or(0) == 0 {
        let none = || found("unknown", "unknown: no batch was delivered yet".to_owned(), "");
        return figures.of_shards(waited, &waits).unwrap_or_else(none);
    }
    if waited <= KEEPS_UP * loop_s {
        return found("slow consumer", format!("the training step: {waits}"), "");
    }
    figures
        .of_map(&waits)
        .or_else(|| figures.of_decoding(&waits))
        .or_else(|| figures.of_shards(waited, &waits))
        .or_else(|| figures.of_reads(waited, &waits))
        .unwrap_or_else(|| figures.of_schedule(waited, &waits))
}

fn found(name: &'static str, what: String, change: impl Into<String>) -> Bottleneck {
    Bottleneck { name, what, change: change.into() }
}

/// Figures, or their growth since an earlier moment.
#[derive(Clone, Copy)]
struct Figures<'a> {
    now: &'a Value,
    earlier: Option<&'a Value>,
}

/// Seconds of a stage, summed over its threads, and its work.
struct Stage {
    busy: f64,
    input: f64,
    output: f64,
    items: f64,
    bytes: f64,
}

impl Stage {
    /// Share of the threads' time at work.
    fn share(&self) -> f64 {
        self.busy / (self.busy + self.input + self.output).max(f64::MIN_POSITIVE)
    }
}

impl Figures<'_> {
    fn growth(&self, of: impl Fn(&Value) -> f64) -> f64 {
        (of(self.now) - self.earlier.map_or(0.0, of)).max(0.0)
    }

    fn stage(&self, name: &str) -> Stage {
        let figure = |key: &str| self.growth(|figures| figures["stages"][name][key].as_f64().unwrap_or(0.0));
        Stage {
            busy: figure("busy_s"),
            input: figure("input_s"),
            output: figure("output_s"),
            items: figure("items"),
            bytes: figure("bytes"),
        }
    }

    fn counter(&self, name: &str) -> f64 {
        self.growth(|figures| figures["counters"][name].as_f64().unwrap_or(0.0))
    }

    /// Seconds of the loop over batches: its waits and its own work.
    fn loop_s(&self) -> f64 {
        let next = self.stage("next");
        next.input + next.output
    }

    /// Seconds that the loop and the decode threads would take if all data were in memory.
    fn rest_s(&self) -> f64 {
        (self.stage("decode").busy / self.threads()).max(self.stage("next").output)
    }

    /// Decode threads.
    fn threads(&self) -> f64 {
        self.now["threads"]["decode"].as_f64().unwrap_or(0.0).max(1.0)
    }

    /// Decode threads that have samples at a time. Few batches ahead have none for most threads of a large machine.
    fn threads_with_samples(&self) -> f64 {
        let busy = self.stage("decode").busy + self.stage("read").busy;
        (busy / self.loop_s().max(f64::MIN_POSITIVE)).clamp(1.0, self.threads())
    }

    /// Requests that the store refused as too many, and all requests.
    fn throttled(&self) -> (f64, f64) {
        let counts = |figures: Self| ["store_throttled", "store_requests"].map(|name| figures.counter(name));
        let ([throttled, requests], [ever, all]) = (counts(*self), counts(Self { earlier: None, ..*self }));
        // A request that was refused waits for up to half a minute before its next attempt: while most of them wait, a
        // short interval has few requests, and no refusal.
        if throttled == 0.0 && requests < ever { (ever, all) } else { (throttled, requests) }
    }

    /// Seconds of opening shards and of waits for it, summed over threads: a part of those in which `read` is busy.
    fn opening_s(&self) -> f64 {
        self.counter("shards_opening_us") / 1e6
    }

    fn of_map(&self, waits: &str) -> Option<Bottleneck> {
        let (map, loop_s) = (self.stage("map"), self.loop_s().max(f64::MIN_POSITIVE));
        let all = map.busy + map.input + map.output;
        // Workers with results wait for the loop while it works. If it waits itself, they wait for an earlier result.
        let for_loop = map.output.min(all * self.stage("next").output / loop_s);
        let share = map.busy / (map.busy + map.input + for_loop).max(f64::MIN_POSITIVE);
        if share < BUSY {
            return None;
        }
        let [cpus, delay] = ["map_cpu_us", "map_cpu_delay_us"].map(|name| self.counter(name) / 1e6 / loop_s);
        let (workers, ready) = (map.busy / loop_s, cpus + delay);
        let percent = 100.0 * share;
        let may_wait = workers > 1.5 && ready >= LOCK_HELD && ready <= LOCK_READY_MAX * workers;
        if may_wait && cpus <= LOCK_CPUS_MAX && cpus >= LOCK_WORKS * ready {
            let what = format!(
                "Python's lock in the function of `map`: {workers:.1} workers were busy at a time, used {cpus:.1} CPUs \
                 together, and {waits}"
            );
            return Some(found("GIL-bound map", what, "pass kind=\"processes\" to Map: threads take turns"));
        }
        let each = 1e3 * map.busy / map.items.max(1.0);
        let what = format!(
            "the function of `map`: its workers were busy {percent:.0}% of the time, {each:.1} ms for a sample, and \
             {waits}"
        );
        let change = if delay > MOST * workers {
            "give this process more CPUs: its workers wait for one most of the time, since other work has them"
        } else {
            "make it faster, or raise `workers` of Map"
        };
        Some(found("slow transform", what, change))
    }

    fn of_decoding(&self, waits: &str) -> Option<Bottleneck> {
        let (decode, read) = (self.stage("decode"), self.stage("read"));
        // Decode threads read samples from the page cache themselves, and wait for the disk when they open shards.
        let opening = self.opening_s();
        let worked = decode.busy + (read.busy - opening).max(0.0);
        let share = worked / (worked + decode.input + opening).max(f64::MIN_POSITIVE);
        if share < BUSY {
            return None;
        }
        let threads = |key: &str| self.now["threads"][key].as_u64().unwrap_or(0);
        let (used, usable) = (threads("decode"), threads("usable"));
        let percent = 100.0 * share;
        if used < usable {
            let what = format!(
                "too few decode threads: {used} of {usable} that this process may use, busy {percent:.0}% of the time, \
                 and {waits}"
            );
            return Some(found("too few threads", what, format!("raise `threads` from {used} to {usable}")));
        }
        let ms = 1e3 * decode.busy / decode.items.max(1.0);
        let busy = format!("threads were busy {percent:.0}% of the time, {ms:.1} ms for a sample, and {waits}");
        let [stored, delivered] = ["picture_pixels", "picture_pixels_delivered"].map(|name| self.counter(name));
        // Smaller files would take less than half of the time.
        if stored > 0.0 && stored * MOST >= delivered * DETAILED {
            let times = stored / delivered.max(1.0);
            return Some(found(
                "huge pictures",
                format!(
                    "decoding of huge pictures, with {times:.0} times the pixels that batches have of them: {busy}"
                ),
                "write smaller pictures, or try scaled_decode=True and row indexes",
            ));
        }
        Some(found("slow decode", format!("decoding, by the CPUs: {busy}"), "use more CPUs, or fewer operations"))
    }

    fn of_shards(&self, waited: f64, waits: &str) -> Option<Bottleneck> {
        if self.counter("wait_shards_us") / 1e6 < MOST * waited {
            return None;
        }
        let [fetch, unpack, publish] = ["fetch", "unpack", "publish"].map(|name| self.stage(name));
        let slowest = fetch.busy.max(unpack.busy).max(publish.busy);
        let is_fetching = slowest == fetch.busy;
        let took = if slowest > 0.0 {
            format!("took {slowest:.1} s, summed over threads, and {waits}")
        } else if self.now["counters"]["store_requests"].as_u64() > Some(0) {
            // Their time counts at their end.
            format!("have not ended, and {waits}")
        } else {
            return None;
        };
        if !is_fetching && slowest == unpack.busy {
            let what = format!("decompression of shards: it {took}");
            return Some(found("slow unpacking", what, "write photographs without compression, or use more CPUs"));
        }
        if !is_fetching {
            let what = format!("the local disk's write rate: checking and writing shards {took}");
            return Some(found("slow disk", what, "use a faster disk for `local`"));
        }
        let rate = fetch.bytes.max(self.counter("store_bytes")) / self.loop_s().max(f64::MIN_POSITIVE);
        let evicted = self.counter("cache_evicted");
        let again = if evicted > 0.0 {
            format!("raise `cache_limit`: {evicted:.0} shards were evicted, and are fetched again")
        } else {
            "a full `local` folder needs no downloads in later epochs".to_owned()
        };
        let came = format!("downloads {took}; {:.1} MB/s came", rate / 1e6);
        let (throttled, requests) = self.throttled();
        if throttled > THROTTLED * requests {
            let what =
                format!("the store throttles: it refused {throttled:.0} requests as too many (429, 503); {came}");
            return Some(found(
                "throttled store",
                what,
                format!("lower `fetch_threads` of Engine, or raise the quota; {again}"),
            ));
        }
        let fetching = self.counter("fetching_us") / 1e6;
        if evicted == 0.0 && fetching > 0.0 && fetching <= SLOW * self.rest_s() {
            let what = format!("a cold cache: shards are not on this machine yet, and came in {fetching:.1} s; {came}");
            return Some(found("cold cache", what, again));
        }
        let change = format!("raise `predownload` and `fetch_threads` of Engine if the network is not full; {again}");
        Some(found("slow store", format!("the network or the store: {came}"), change))
    }

    fn of_reads(&self, waited: f64, waits: &str) -> Option<Bottleneck> {
        let read = self.stage("read");
        let opening = self.opening_s() / self.threads_with_samples();
        let for_disk = read.input.max(opening);
        // Reads that limit the rate wait while the loop works, too.
        if for_disk + read.output - self.stage("next").output < MOST * waited {
            return None;
        }
        let rate = self.counter("reads_bytes") / self.loop_s().max(f64::MIN_POSITIVE);
        let opened = if opening > read.input { format!(", opening shards took {opening:.1} s") } else { String::new() };
        let took = format!("reads waited {:.1} s and got {:.1} MB/s{opened}, and {waits}", read.input, rate / 1e6);
        if read.output > for_disk {
            let what = format!("too little memory for samples: reads waited {:.1} s for it, and {waits}", read.output);
            return Some(found("too small memory", what, "raise `memory` of Engine"));
        }
        // Reads through the page cache are for data that fits into memory.
        let is_first = self.counter("reads_buffered") > self.counter("reads_direct");
        if is_first && for_disk <= SLOW * self.rest_s() {
            let what = format!("a cold page cache: samples were read from disk for the first time: {took}");
            return Some(found("cold cache", what, "later epochs read them from memory"));
        }
        let change = if is_first {
            "use a faster disk; later epochs read from memory, since the data fits"
        } else {
            "use a faster disk, or more memory so that the data fits"
        };
        Some(found("slow disk", format!("the local disk's read rate: {took}"), change))
    }

    fn of_schedule(&self, waited: f64, waits: &str) -> Bottleneck {
        let schedule = self.stage("schedule");
        let percent = 100.0 * self.stage("decode").share();
        let idle = format!("decode threads were busy {percent:.0}% of the time, and {waits}");
        // While the loop works on a batch the ones after it are complete, and wait.
        let worked = self.stage("next").output;
        let [memory, turn] = [schedule.input - worked, schedule.output - worked];
        if memory >= turn && memory >= MOST * waited {
            let what = format!("too little memory for batches: the next one waited {memory:.1} s for it; {idle}");
            return found("too small memory", what, "raise `memory` of Engine");
        }
        if turn >= MOST * waited {
            let what = format!("a small `prefetch`: the next batch waited {turn:.1} s for its turn; {idle}");
            return found("small prefetch", what, "raise `prefetch` of Engine to 8 or 16, and `memory` for it");
        }
        if worked >= BUSY * self.loop_s() {
            return found("slow consumer", format!("the training step: {waits}"), "");
        }
        found("unknown", format!("unclear: {idle}"), "")
    }
}

#[cfg(test)]
mod tests;
