//! The programs of `ffi/tests`.

use crate::rig::{Rig, Sanitizer, command, has, libraries, succeeded, sum_of_all_tokens};
use forebay_tests::server::{Fault, Keys, ObjectServer, Options, Root, Rule};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// Runs a program of `ffi/tests` plainly and under each sanitizer; it must print `expected` each time.
fn run_with_all(source: &str, expected: &str) {
    for sanitizer in [Sanitizer::None, Sanitizer::Address, Sanitizer::Thread] {
        assert_eq!(Rig::new().run(source, sanitizer), expected, "{sanitizer:?}");
    }
}

#[test]
fn a_c_program_reads_all_tokens_in_several_ways() {
    run_with_all("tests/interface.c", &sum_of_all_tokens());
}

#[test]
fn every_wrong_call_is_an_error_with_a_message() {
    run_with_all("tests/mistakes.c", "");
}

#[test]
fn threads_share_objects_of_every_kind_and_each_frees_them() {
    run_with_all("tests/threads.c", &sum_of_all_tokens());
}

#[test]
fn objects_may_be_freed_while_threads_wait_in_their_calls() {
    for sanitizer in [Sanitizer::None, Sanitizer::Address, Sanitizer::Thread] {
        let rig = Rig::new();
        let server = ObjectServer::start(Root::folder(rig.path("data")), Options::default()).expect("a server");
        server.script(Rule::always("shard", Fault::StallAfter(0)));
        let streams = json!([{"remote": server.url(), "local": rig.path("cache")}]);
        std::fs::write(rig.config(), json!({"streams": streams, "batch_size": 16}).to_string()).expect("written");
        let mut program = rig.prepared("tests/waits.c", sanitizer);
        let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let mut input = program.stdin.take().expect("its input");
        let mut output = BufReader::new(program.stdout.take().expect("its output")).lines();
        let mut expect = |line: &str| assert_eq!(output.next().and_then(Result::ok).as_deref(), Some(line));
        expect("reading");
        server.stalled(1);
        input.write_all(b"\n").expect("the program reads");
        expect("freed");
        server.release();
        assert!(program.wait().expect("its end").success(), "{sanitizer:?}");
    }
}

/// Under the address sanitizer a loader that is alive at the end would be a leak.
#[test]
fn a_program_closes_the_library_with_dlclose_and_continues() {
    let rig = Rig::new();
    let program = rig.compile("tests/unload.c", Sanitizer::None);
    succeeded(command(program).arg(rig.config()).arg(libraries().join("libforebay.so")));
}

#[test]
fn handlers_and_masks_stay_the_program_s_and_a_closed_connection_does_not_end_it() {
    for sanitizer in [Sanitizer::None, Sanitizer::Address] {
        let rig = Rig::new();
        let options =
            Options { bucket: Some("bucket".into()), keys: Some(Keys::new("key", "secret")), ..Options::default() };
        let server = ObjectServer::in_memory(options).expect("a server");
        let mut program = rig.prepared("tests/signals.c", sanitizer);
        program
            .env("S3_ENDPOINT_URL", server.url())
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret");
        succeeded(program.env("AWS_REGION", "us-east-1").arg("s3://bucket/set"));
        assert!(server.objects().contains_key("set/index.json"));
    }
}

#[test]
fn the_log_callback_receives_lines_up_to_its_level() {
    run_with_all("tests/log.c", "");
}

/// Without sanitizers. The thread sanitizer allows no thread after a fork of a process with threads. The address
/// sanitizer of GCC 12 and of LLVM before 18 has locks that stay held in the child, which then waits without end.
#[test]
fn a_forked_child_makes_its_own_objects_and_leaves_its_parent_s_alone() {
    assert_eq!(Rig::new().run("tests/fork.c", Sanitizer::None), "");
}

#[test]
fn valgrind_reports_no_error_and_no_loss_for_epochs_and_wrong_calls() {
    if !has("valgrind") {
        return;
    }
    let programs = [
        ("tests/interface.c", sum_of_all_tokens()),
        ("tests/mistakes.c", String::new()),
        ("tests/threads.c", sum_of_all_tokens()),
        ("tests/log.c", String::new()),
    ];
    for (source, expected) in programs {
        let rig = Rig::new();
        let program = rig.compile(source, Sanitizer::None);
        let mut valgrind = command("valgrind");
        // Losses that are definite or possible are errors.
        valgrind.args(["--quiet", "--error-exitcode=99", "--leak-check=full"]);
        assert_eq!(succeeded(valgrind.arg(program).arg(rig.config()).arg(rig.path("out"))), expected, "{source}");
    }
}

#[test]
fn the_cpp_wrapper_reads_writes_and_throws() {
    run_with_all("tests/wrapper.cpp", &sum_of_all_tokens());
}
