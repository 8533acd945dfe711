//! Recorded cases.

use super::recorded;

#[test]
fn recorded_cases_return_the_references_ids_or_its_error() {
    let mut compared = 0;
    for recorded in recorded() {
        let answer = recorded.case.answer();
        if recorded.answer["error"] == "ResumedPastEnd" {
            // The reference checks the position first. A plan resumes further, so it may find something else wrong
            // first.
            assert!(answer.get("error").is_some(), "line {}: {answer}", recorded.line);
            compared += 1;
            continue;
        }
        for (field, value) in recorded.answer.as_object().unwrap() {
            assert_eq!(answer.get(field), Some(value), "{field} of line {}: {answer}", recorded.line);
            compared += 1;
        }
    }
    assert!(compared > 4000, "{compared}");
}
