//! 100 million samples in 20,000 shards within the documented memory.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Address space of the child, in the shell's units of 1,024 bytes: 0.5 GB.
const LIMIT_KIB: u64 = 500_000_000 / 1024;

/// Returns the child's answers to `cases`, computed under the limit.
fn answers(cases: &[Value]) -> Vec<Value> {
    let mut child = Command::new("sh")
        .args(["-c", &format!("ulimit -v {LIMIT_KIB} && exec \"$0\""), env!("CARGO_BIN_EXE_order_oracle")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = cases.iter().map(|case| format!("{case}\n")).collect();
    // The child answers each line before it reads the next: a thread writes, so that neither waits.
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the child ended with {}: too little memory?", output.status);
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_plan_of_100_million_samples_resumes_anywhere_within_half_a_gigabyte() {
    let text = include_str!("../../data/order/huge.jsonl");
    let recorded: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(recorded.len(), 8);
    let case = |record: &Value| {
        json!({
            "streams": [vec![5_000; 20_000]], "weights": [null], "shuffle": true, "algo": record["algo"], "seed": 9176,
            "block": null, "partition": "relaxed", "canonical": record["canonical"], "batch": 256,
            "sampling": "balanced", "granularity": 1, "batching": "random", "replication": null, "epoch_size": null,
            "nodes": 1, "ranks": 8, "workers": 1, "epoch": 2, "batch_of_rank": 3,
            "resume": {
                "epoch": 2, "sample_in_epoch": record["resume_at"], "num_canonical_nodes": record["canonical"],
                "shuffle_seed": 9176, "initial_physical_nodes": 1,
            },
        })
    };
    let cases: Vec<Value> = recorded.iter().map(case).collect();
    for (record, answer) in recorded.iter().zip(answers(&cases)) {
        assert_eq!(record["batch_of_rank_3"], answer, "{} on {}", record["algo"], record["canonical"]);
    }
}
