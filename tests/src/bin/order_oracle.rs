//! Answers cases of the order, one JSON object a line: `"ids": true` in a case requests all ids in addition to the
//! hash, `"batch_of_rank": 3` for the first batch of that rank and nothing else.
//!
//! `tests/oracle/order_live.py` compares the answers with an installed reference.

use std::io::{self, BufRead, Write};

use forebay_loader::order::Rank;
use forebay_tests::order_cases::Case;
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let answer = match serde_json::from_str::<Value>(&line?) {
            Ok(case) => answer(&case),
            Err(error) => json!({ "unreadable": error.to_string() }),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(json: &Value) -> Value {
    let case = match Case::parse(json) {
        Ok(case) => case,
        Err(error) => return json!({ "unreadable": error }),
    };
    if let Some(rank) = json.get("batch_of_rank").and_then(Value::as_u64) {
        return match case.plan() {
            Ok(plan) => {
                let mut rows = Vec::new();
                plan.rank(Rank(rank as u32)).next_batch(&mut rows);
                json!(rows.iter().map(|row| row.sample.0).collect::<Vec<_>>())
            }
            Err(error) => json!({ "error": error.to_string() }),
        };
    }
    let mut answer = case.answer();
    if json.get("ids").is_some()
        && let Ok(ids) = case.ids()
    {
        answer["ids"] = json!(ids);
    }
    answer
}
