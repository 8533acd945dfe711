use super::*;
use serde_json::json;
use std::collections::HashSet;

/// Figures of a loop of ten seconds that waited for eight, on two of two decode threads. `stages` has the seconds busy,
/// waiting for input and for output, the items and the bytes.
fn figures(stages: &[(&str, [f64; 5])], counters: &[(&str, u64)]) -> Value {
    let mut all = json!({"threads": {"decode": 2, "usable": 2}, "stages": {}, "counters": {}});
    let usual = [("next", [0.0, 8.0, 2.0, 9.0, 0.0]), ("decode", [2.0, 18.0, 0.0, 1000.0, 1e8])];
    for (name, [busy, input, output, items, bytes]) in usual.iter().chain(stages) {
        let (items, bytes) = (*items as u64, *bytes as u64);
        all["stages"][*name] =
            json!({"busy_s": busy, "input_s": input, "output_s": output, "items": items, "bytes": bytes});
    }
    for (name, value) in counters {
        all["counters"][*name] = (*value).into();
    }
    all
}

/// Figures of real loaders with bottlenecks that `bench/scripts/bottlenecks.py` has staged, each with the right limit.
const STAGED: &str = include_str!("staged.json");

const DECODES: (&str, [f64; 5]) = ("decode", [19.0, 1.0, 0.0, 1000.0, 1e8]);
const DOWNLOADS: (&str, [f64; 5]) = ("fetch", [12.0, 0.0, 0.0, 30.0, 120e6]);
const FOR_SHARDS: (&str, u64) = ("wait_shards_us", 7_900_000);

/// Finds the limit, and compares its name and the beginning of its sentence. Returns what to change.
fn check(figures: &Value, name: &str, begin: &str) -> String {
    let found = bottleneck(figures, None);
    assert_eq!(found.name, name, "{found}");
    assert!(found.what.starts_with(begin), "{found}");
    assert!(!found.to_string().contains('\n'), "{found}");
    found.change
}

#[test]
fn a_loop_that_waits_little_is_the_limit_itself() {
    let slow = figures(&[("next", [0.0, 0.1, 9.9, 9.0, 0.0]), DECODES], &[]);
    assert_eq!(check(&slow, "slow consumer", "the training step: the loop waited 0.1 of 10.0 s for batches"), "");
    check(&figures(&[("next", [0.0, 9.0, 0.0, 0.0, 0.0])], &[]), "unknown", "unknown: no batch was delivered yet");
}

#[test]
fn limits_of_staged_loaders_are_found() {
    let staged: Vec<Value> = serde_json::from_str(STAGED).expect("a list");
    for loader in &staged {
        let found = bottleneck(loader, None);
        assert_eq!(loader["limit"], found.name, "{}: {found}", loader["scene"]);
    }
    let limits: HashSet<_> = staged.iter().map(|loader| loader["limit"].as_str()).collect();
    assert_eq!(limits.len(), 11, "all but the slow rank, which is found in the figures of several loaders");
}

#[test]
fn functions_of_map_are_slow_or_wait_for_the_lock_of_python() {
    let busy = ("map", [38.0, 2.0, 0.0, 1000.0, 0.0]);
    let cpu = |seconds: u64| [("map_cpu_us", seconds * 1_000_000)];
    let begin = "the function of `map`: its workers were busy 95% of the time, 38.0 ms for a sample";
    for seconds in [0, 2, 36] {
        let change = check(&figures(&[busy], &cpu(seconds)), "slow transform", begin);
        assert!(change.contains("raise `workers`"), "{change}");
    }
    let change = check(&figures(&[busy], &cpu(10)), "GIL-bound map", "Python's lock in the function of `map`: 3.8");
    assert!(change.contains("kind=\"processes\""), "{change}");
    // Measured with loops in Python, sleeps and sorts of numpy, in 2 or 4 threads on 2 CPUs with 20 runnable threads.
    for (workers, cpu, delay, name) in [
        (4.0, 1.0, 28.6, "GIL-bound map"),
        (4.0, 0.02, 12.5, "slow transform"),
        (4.0, 1.6, 35.1, "slow transform"),
        (2.0, 1.2, 17.2, "slow transform"),
    ] {
        let counters = [("map_cpu_us", cpu), ("map_cpu_delay_us", delay)].map(|(key, s)| (key, (s * 1e6) as u64));
        let found = bottleneck(&figures(&[("map", [10.0 * workers, 0.0, 0.0, 9.0, 0.0])], &counters), None);
        assert_eq!(found.name, name, "{found}");
        assert_eq!(found.change.contains("more CPUs"), name == "slow transform" && delay > 15.0, "{found}");
    }
    // One worker has the lock to itself.
    check(&figures(&[("map", [9.5, 0.5, 0.0, 9.0, 0.0])], &cpu(9)), "slow transform", "the function of `map`");
    check(&figures(&[("map", [2.0, 38.0, 0.0, 9.0, 0.0]), DECODES], &cpu(2)), "slow decode", "decoding");
}

#[test]
fn busy_decode_threads_are_too_few_or_have_large_samples_or_need_cpus() {
    let mut few = figures(&[DECODES], &[]);
    few["threads"] = json!({"decode": 2, "usable": 8});
    let change = check(&few, "too few threads", "too few decode threads: 2 of 8 that this process may use, busy 95%");
    assert_eq!(change, "raise `threads` from 2 to 8");
    // 1,000 pictures for batches of 224 x 224. With a quarter of the pixels they keep their details.
    let decoded = |pixels: u64| [("picture_pixels", pixels), ("picture_pixels_delivered", 1000 * 224 * 224)];
    let large = figures(&[DECODES], &decoded(1000 * 4000 * 3000));
    let change =
        check(&large, "huge pictures", "decoding of huge pictures, with 239 times the pixels that batches have");
    assert!(change.contains("scaled_decode=True"), "{change}");
    check(&figures(&[DECODES], &decoded(1000 * 634 * 634)), "huge pictures", "decoding of huge pictures, with 8 times");
    check(&figures(&[DECODES], &decoded(1000 * 500 * 375)), "slow decode", "decoding, by the CPUs");
    // Many bytes without pictures.
    check(&figures(&[("decode", [19.0, 1.0, 0.0, 1000.0, 3e9])], &[]), "slow decode", "decoding, by the CPUs");
    check(&figures(&[DECODES, DOWNLOADS], &[FOR_SHARDS]), "slow decode", "decoding, by the CPUs");
    // Threads that copy samples from the page cache work too.
    let copies = figures(&[("read", [60.0, 0.0, 0.0, 9.0, 0.0])], &[]);
    check(&copies, "slow decode", "decoding, by the CPUs");
}

#[test]
fn the_wait_for_shards_is_for_the_store_the_cache_the_cpus_or_the_disk() {
    let found = |stages: &[_], counters: &[_], name, begin| {
        check(&figures(stages, &[&[FOR_SHARDS, ("store_requests", 100)], counters].concat()), name, begin)
    };
    let change = found(&[DOWNLOADS], &[], "slow store", "the network or the store: downloads took 12.0 s");
    assert!(change.starts_with("raise `predownload` and `fetch_threads`"), "{change}");
    let change = found(&[DOWNLOADS], &[("cache_evicted", 7)], "slow store", "the network or the store");
    assert!(change.contains("raise `cache_limit`: 7 shards"), "{change}");
    let change =
        found(&[DOWNLOADS], &[("store_throttled", 20)], "throttled store", "the store throttles: it refused 20");
    assert!(change.starts_with("lower `fetch_threads`"), "{change}");
    found(&[DOWNLOADS], &[("store_throttled", 1)], "slow store", "the network");
    // Refused requests that wait, while two others are answered; hundreds that are answered long after a refusal.
    let early = figures(&[], &[("store_requests", 300), ("store_throttled", 236)]);
    for (requests, name) in [(302, "throttled store"), (700, "slow store")] {
        let counters = [FOR_SHARDS, ("store_requests", requests), ("store_throttled", 236)];
        let now = figures(&[("next", [0.0, 16.0, 4.0, 19.0, 0.0]), DOWNLOADS], &counters);
        assert_eq!(bottleneck(&now, Some(&early)).name, name);
    }
    let fast = ("fetch", [12.0, 0.0, 0.0, 30.0, 4e9]);
    // The loop worked for two seconds, so it can wait for others of two seconds.
    let came = |us: u64| [("fetching_us", us)];
    let begin = "a cold cache: shards are not on this machine yet, and came in 3.9 s; downloads took 12.0 s";
    let change = found(&[fast], &came(3_900_000), "cold cache", begin);
    assert!(change.contains("later epochs"), "{change}");
    found(&[fast], &came(4_100_000), "slow store", "the network or the store");
    let evicted = [("fetching_us", 3_900_000), ("cache_evicted", 7)];
    found(&[fast], &evicted, "slow store", "the network or the store");
    let decodes = ("decode", [6.0, 14.0, 0.0, 1000.0, 1e8]);
    found(&[fast, decodes], &came(5_900_000), "cold cache", "a cold cache");
    found(
        &[("unpack", [9.0, 0.0, 0.0, 9.0, 0.0]), fast, ("unpack", [13.0; 5])],
        &[],
        "slow unpacking",
        "decompression",
    );
    found(&[DOWNLOADS, ("publish", [13.0; 5])], &[], "slow disk", "the local disk's write rate: checking and writing");
    // Downloads that take longer than the time of the figures.
    let begun = ("store_bytes", 6_000_000);
    let change = found(&[], &[begun], "slow store", "the network or the store: downloads have not ended, and the loop");
    assert!(change.starts_with("raise `predownload`"), "{change}");
    let first = figures(&[("next", [0.0, 8.0, 0.0, 0.0, 0.0])], &[FOR_SHARDS, ("store_requests", 1)]);
    check(&first, "slow store", "the network or the store: downloads have not ended");
    check(&figures(&[], &[FOR_SHARDS]), "unknown", "unclear");
    // Downloads in the background, while the loop waits for something else.
    let behind = figures(&[DOWNLOADS, ("schedule", [0.0, 0.0, 9.0, 9.0, 0.0])], &[("wait_shards_us", 3_000_000)]);
    check(&behind, "small prefetch", "a small `prefetch`");
}

#[test]
fn reads_are_slow_or_the_first_ones_or_lack_memory() {
    let reads = |decode_s: f64, buffered: u64| {
        let counters = [("reads_bytes", 90_000_000), ("reads_direct", 50), ("reads_buffered", buffered)];
        let decode = ("decode", [decode_s, 20.0 - decode_s, 0.0, 1000.0, 1e8]);
        figures(&[("read", [0.0, 7.0, 0.0, 9.0, 0.0]), decode], &counters)
    };
    let begin = "the local disk's read rate: reads waited 7.0 s and got 9.0 MB/s";
    let change = check(&reads(2.0, 0), "slow disk", begin);
    assert!(change.ends_with("or more memory so that the data fits"), "{change}");
    assert!(check(&reads(2.0, 99), "slow disk", begin).contains("later epochs read from memory"));
    // Two decode threads need four seconds for what the disk gives in seven.
    check(&reads(8.0, 0), "slow disk", begin);
    let begin = "a cold page cache: samples were read from disk for the first time";
    assert_eq!(check(&reads(8.0, 99), "cold cache", begin), "later epochs read them from memory");
    // All threads that have samples wait while one of them opens the shard, of many threads or of few.
    let opens = |threads: u64, busy: f64| {
        let idle = threads as f64 * 10.0 - busy;
        let stages = [("read", [busy - 1.0, 0.0, 0.0, 9.0, 0.0]), ("decode", [1.0, idle, 0.0, 9.0, 0.0])];
        let mut figures = figures(&stages, &[("shards_opening_us", ((busy - 2.0) * 1e6) as u64)]);
        figures["threads"] = json!({"decode": threads, "usable": threads});
        figures
    };
    for (threads, busy) in [(2, 19.0), (16, 40.0), (16, 9.0)] {
        let begin = "the local disk's read rate: reads waited 0.0 s and got 0.0 MB/s, opening shards took";
        check(&opens(threads, busy), "slow disk", begin);
    }
    let ahead = [("next", [0.0, 1.1, 6.1, 9.0, 0.0]), ("read", [0.0, 0.9, 0.0, 9.0, 0.0])];
    check(&figures(&ahead, &[("reads_bytes", 4_000_000)]), "slow consumer", "the training step");
    let no_slots = figures(&[("read", [0.0, 1.0, 6.0, 9.0, 0.0])], &[]);
    assert_eq!(check(&no_slots, "too small memory", "too little memory for samples"), "raise `memory` of Engine");
}

#[test]
fn batches_that_may_not_begin_lack_memory_or_prefetch() {
    // The loop works for two seconds.
    let schedule = |memory: f64, turn: f64| figures(&[("schedule", [0.1, memory + 2.0, turn + 2.0, 9.0, 0.0])], &[]);
    assert_eq!(
        check(&schedule(7.0, 1.0), "too small memory", "too little memory for batches"),
        "raise `memory` of Engine"
    );
    let change = check(&schedule(1.0, 7.0), "small prefetch", "a small `prefetch`: the next batch waited 7.0 s");
    assert!(change.starts_with("raise `prefetch`"), "{change}");
    check(&schedule(1.0, 1.0), "unknown", "unclear: decode threads were busy 10% of the time, and the loop waited 8.0");
    // A rank that waits for a slower one in each step, and seldom for its own data.
    let kept_up = figures(&[("next", [0.0, 0.5, 6.5, 30.0, 0.0]), ("schedule", [0.1, 4.9, 0.0, 30.0, 0.0])], &[]);
    check(&kept_up, "slow consumer", "the training step: the loop waited 0.5 of 7.0 s for batches");
}

#[test]
fn the_limit_of_an_interval_is_found_in_the_growth_of_the_figures() {
    let earlier = figures(&[DOWNLOADS], &[FOR_SHARDS]);
    let now = [("next", [0.0, 8.1, 11.9, 19.0, 0.0]), ("decode", [3.0, 30.0, 0.0, 1900.0, 2e8]), DOWNLOADS];
    let now = figures(&now, &[FOR_SHARDS]);
    assert_eq!(bottleneck(&now, None).name, "slow store");
    let found = bottleneck(&now, Some(&earlier));
    assert_eq!(
        (found.name, &*found.what),
        ("slow consumer", "the training step: the loop waited 0.1 of 10.0 s for batches")
    );
    // A step that is longer than the interval.
    assert_eq!(bottleneck(&now, Some(&now)).name, "slow consumer");
}
