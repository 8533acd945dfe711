//! The order against the reference's own, and against the promises of every order.
//!
//! * `arrangements` — repeated rows, weighted draws and buckets by length, in every world and after a resumption;
//! * `golden` — thousands of recorded cases give the reference's ids or its error;
//! * `huge` — 100 million samples, resumed anywhere, in a process that may not have more than 0.5 GB;
//! * `promises` — over the same cases: all ways to read a plan agree, uses of shards cover the samples that are read,
//!   resuming continues, worlds see the same global batches;
//! * `tail` — a resumed epoch is the tail of the whole one, also where the reference refuses to resume;
//! * `live` — random cases against an installed reference (ignored unless asked for).

#![allow(clippy::unwrap_used, reason = "a suite fails by panicking")]

mod arrangements;
mod golden;
mod huge;
mod live;
mod promises;
mod tail;

use forebay_tests::order_cases::Case;
use serde_json::Value;

/// A recorded case, the reference's result, and its line.
struct Recorded {
    line: usize,
    case: Case,
    answer: Value,
}

/// The recorded cases. `tests/oracle/order_golden.py` writes them.
fn recorded() -> Vec<Recorded> {
    let text = include_str!("../../data/order/cases.jsonl");
    let parse = |(at, line): (usize, &str)| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        let case = Case::parse(&record["case"]).unwrap();
        Recorded { line: at + 1, case, answer: record["answer"].take() }
    };
    let cases: Vec<Recorded> = text.lines().enumerate().map(parse).collect();
    assert!(cases.len() >= 3000, "only {} cases were recorded", cases.len());
    cases
}
