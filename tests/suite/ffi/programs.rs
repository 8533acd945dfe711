//! The programs of `ffi/tests`.

use crate::rig::{Rig, Sanitizer, command, has, libraries, succeeded, sum_of_all_tokens};

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
fn threads_share_a_loader_that_may_be_freed_while_they_wait() {
    run_with_all("tests/threads.c", &sum_of_all_tokens());
}

/// Under the address sanitizer a loader that is alive at the end would be a leak.
#[test]
fn a_program_closes_the_library_with_dlclose_and_continues() {
    let rig = Rig::new();
    let program = rig.compile("tests/unload.c", Sanitizer::None);
    succeeded(command(program).arg(rig.config()).arg(libraries().join("libforebay.so")));
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
fn valgrind_reports_no_error_for_epochs_and_wrong_calls() {
    if !has("valgrind") {
        return;
    }
    for (source, expected) in [("tests/interface.c", sum_of_all_tokens()), ("tests/mistakes.c", String::new())] {
        let rig = Rig::new();
        let program = rig.compile(source, Sanitizer::None);
        let mut valgrind = command("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
        assert_eq!(succeeded(valgrind.arg(program).arg(rig.config()).arg(rig.path("out"))), expected);
    }
}

#[test]
fn the_cpp_wrapper_reads_writes_and_throws() {
    run_with_all("tests/wrapper.cpp", &sum_of_all_tokens());
}
