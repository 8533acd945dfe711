//! Mutation tests of this crate's tests: a copy of the crate is broken at one point at a time, and the test that is
//! listed for the break must fail.
//!
//! `cargo test -p forebay-gpu --test breaks -- --ignored --nocapture` takes minutes. `BREAKS=rows` before it selects
//! the breaks whose file or suite has this in its name. A second test checks in every run that each break matches its
//! source.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Time limit of a test in seconds. A test that exceeds it hangs, which does not count as a failure.
const LIMIT: &str = "120";

/// Exit status of `timeout` then.
const TIMED_OUT: i32 = 124;

/// One way to break the crate.
struct Break {
    /// Description of the fault.
    what: &'static str,
    /// File in `gpu/src`.
    file: &'static str,
    /// Text that occurs once in the file.
    sound: &'static str,
    /// Replacement of the text.
    broken: &'static str,
    /// Suite in `gpu/tests`, and its test that must fail.
    caught_by: (&'static str, &'static str),
}

const BREAKS: [Break; 50] = [
    Break {
        what: "a slot is released before its copy has ended",
        file: "release.rs",
        sound: "Ok(ReleaseRequest::AfterEvent(copied, slot)) => drop(leak_on_error(copied.wait(), slot)),",
        broken: "Ok(ReleaseRequest::AfterEvent(_, slot)) => drop(leak_on_error(Ok(()), slot)),",
        caught_by: ("delivery", "a_slot_returns_to_its_pool_only_after_its_copy"),
    },
    Break {
        what: "a slot with files is released before they have been read",
        file: "decode/decoder.rs",
        sound: "batch.ended.wait()?;",
        broken: "",
        caught_by: ("decode", "a_slot_with_files_is_released_after_they_have_been_read"),
    },
    Break {
        what: "a slot of an abandoned batch is released before its files have been read",
        file: "decode/in_flight.rs",
        sound: "self.device.release_slot_after(self.ended.clone(), filled);",
        broken: "drop(filled);",
        caught_by: ("decode", "a_slot_with_files_is_released_after_they_have_been_read"),
    },
    Break {
        what: "memory of an abandoned batch is reused while the device still uses it",
        file: "decode/in_flight.rs",
        sound: "self.device.blocks.release(block, vec![self.ended.clone()]);",
        broken: "self.device.blocks.release(block, Vec::new());",
        caught_by: ("decode", "an_abandoned_batch_is_not_overwritten_before_the_device_has_finished_it"),
    },
    Break {
        what: "a large picture without memory ends all decoding",
        file: "decode/submit.rs",
        sound: "1 if group.pixel_bytes < LARGE_BYTES => Err(error),",
        broken: "1 if group.pixel_bytes < usize::MAX => Err(error),",
        caught_by: ("decode", "failure::only_a_large_picture_without_memory_is_rejected"),
    },
    Break {
        what: "there is no search for undecoded pictures",
        file: "decode/submit.rs",
        sound: "unsafe { kernels.find_undecoded(list_at, list.len(), stream) }",
        broken: "{ let _ = list_at; Ok(()) }",
        caught_by: ("decode", "undecoded::undecoded_pictures_are_returned_and_the_others_are_decoded_once"),
    },
    Break {
        what: "undecoded pictures have pixels of different pictures",
        file: "decode/submit.rs",
        sound: "unsafe { resources.stream.fill(scratch, BLANK, group.scratch_bytes()) }?;",
        broken: "",
        caught_by: ("decode", "undecoded::undecoded_pictures_of_a_second_batch_in_flight_are_found"),
    },
    Break {
        what: "new scratch memory is not blank",
        file: "decode/group_slot.rs",
        sound: "block.fill(BLANK, stream)?;",
        broken: "let _ = (BLANK, stream);",
        caught_by: ("decode", "undecoded::undecoded_pictures_are_returned_and_the_others_are_decoded_once"),
    },
    Break {
        what: "undecoded pictures have pixels of a failed group",
        file: "decode/group_slot.rs",
        sound: "self.streams.iter().try_for_each(|stream| stream.wait())?;\n                self.is_blank = false;",
        broken: "self.streams.iter().try_for_each(|stream| stream.wait())?;",
        caught_by: ("decode", "undecoded::undecoded_pictures_after_a_failed_group_are_found"),
    },
    Break {
        what: "undecoded pictures have pixels that engines wrote before they rejected the batch",
        file: "decode/submit.rs",
        sound: "clear(resources, part)?;",
        broken: "",
        caught_by: ("decode", "undecoded::undecoded_and_rejected_pictures_of_a_batch_are_returned_together"),
    },
    Break {
        what: "a slot without memory on the device is returned while the device still reads its files",
        file: "decode/decoder.rs",
        sound: "leak_on_error(resources.wait_for_streams(), held)?;",
        broken: "leak_on_error(Ok(()), held)?;",
        caught_by: ("decode", "failure::a_slot_without_memory_is_kept_if_the_end_of_its_work_is_unknown"),
    },
    Break {
        what: "pictures are decoded to memory that is too small",
        file: "decode/group_slot.rs",
        sound: "filter(|block| block.len() >= bytes)",
        broken: "filter(|block| block.len() > 0)",
        caught_by: ("decode", "device_memory_grows_with_batches"),
    },
    Break {
        what: "streams wait for the default stream",
        file: "context.rs",
        sound: "stream::StreamKind::NonBlocking",
        broken: "stream::StreamKind::Default",
        caught_by: ("delivery", "a_slot_returns_to_its_pool_only_after_its_copy"),
    },
    Break {
        what: "calls end a second thread's capture of a graph",
        file: "context.rs",
        sound: "CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED",
        broken: "CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL",
        caught_by: ("delivery", "no_call_ends_another_thread_s_capture_of_a_graph"),
    },
    Break {
        what: "a consumer does not wait for the copy",
        file: "batch.rs",
        sound: "self.copied.delay(dlpack_stream(number))?;",
        broken: "",
        caught_by: ("delivery", "a_consumer_s_ordered_read_comes_after_the_copy"),
    },
    Break {
        what: "a wait for the device ends a consumer's capture",
        file: "batch.rs",
        sound: "Ok(None) => self.device.release_block_after_consumers(block, streams),",
        broken: "Ok(None) => self.device.release_block_after_device(block),",
        caught_by: ("delivery", "a_batch_does_not_become_part_of_a_graph_that_its_consumer_captures"),
    },
    Break {
        what: "an event becomes part of a consumer's graph",
        file: "release.rs",
        sound: "if context.is_captured(dlpack_stream(*number))? {",
        broken: "if false {",
        caught_by: ("delivery", "a_batch_does_not_become_part_of_a_graph_that_its_consumer_captures"),
    },
    Break {
        what: "device memory is reused before its reader",
        file: "memory.rs",
        sound: "reader.delay(stream.handle)?;",
        broken: "drop(reader);",
        caught_by: ("delivery", "device_memory_is_reused_only_after_its_reader"),
    },
    Break {
        what: "device memory is reused for pictures before its reader",
        file: "memory.rs",
        sound: "reader.delay(stream.handle)?;",
        broken: "drop(reader);",
        caught_by: ("decode", "rows_are_written_only_after_a_consumer_s_read"),
    },
    Break {
        what: "engines overwrite pixels that the kernel has not read yet",
        file: "decode/group_slot.rs",
        sound: "self.done.wait()?;",
        broken: "",
        caught_by: ("decode", "engines_write_only_to_memory_that_is_not_read_any_more"),
    },
    Break {
        what: "the kernel does not wait for the engines",
        file: "decode/submit.rs",
        sound: "engines.done.delay(stream)?;",
        broken: "",
        caught_by: ("decode", "pictures_equal_the_host_s_in_each_type_and_layout_next_to_finished_rows"),
    },
    Break {
        what: "the engines wait for the cores",
        file: "decode/submit.rs",
        sound: "let by_engines = match",
        broken: "if let Some(cores) = &group_slot.cores { cores.done.delay(resources.engines_stream.handle)?; } let \
                 by_engines = match",
        caught_by: ("decode", "balance::engines_and_cores_decode_at_the_same_time_in_proportion_to_their_speeds"),
    },
    Break {
        what: "the cores get their pictures after the engines' call has returned",
        file: "decode/submit.rs",
        sound: "        let by_cores = match &mut group_slot.cores {
            Some(decoder) => decode(resources, decoder, &on_cores, &resources.stream)?,
            None => Rejections::all(&on_cores),
        };
        let by_engines = match &mut group_slot.engines {
            Some(decoder) => decode(resources, decoder, &on_engines, &resources.engines_stream)?,
            None => Rejections::all(&on_engines),
        };
",
        broken: "        let by_engines = match &mut group_slot.engines {
            Some(decoder) => decode(resources, decoder, &on_engines, &resources.engines_stream)?,
            None => Rejections::all(&on_engines),
        };
        let by_cores = match &mut group_slot.cores {
            Some(decoder) => decode(resources, decoder, &on_cores, &resources.stream)?,
            None => Rejections::all(&on_cores),
        };
",
        caught_by: ("decode", "balance::engines_and_cores_decode_at_the_same_time_in_proportion_to_their_speeds"),
    },
    Break {
        what: "engines with wrong pixels are used",
        file: "decode/selftest.rs",
        sound: "if !difference.is_within(max) {",
        broken: "if difference.mean > 255.0 {",
        caught_by: ("decode", "opening::engines_with_wrong_pixels_are_not_used"),
    },
    Break {
        what: "the cores' times are not measured",
        file: "decode/group_slot.rs",
        sound: "cores: time(&self.cores)? }",
        broken: "cores: None }",
        caught_by: ("decode", "balance::engines_and_cores_decode_at_the_same_time_in_proportion_to_their_speeds"),
    },
    Break {
        what: "half of a rejected batch is decoded while the second half is in flight",
        file: "decode/submit.rs",
        sound: "resources.wait_for_streams()?;",
        broken: "",
        caught_by: ("decode", "rejected::rejected_pictures_are_returned_and_the_others_are_decoded_once"),
    },
    Break {
        what: "a decoder is freed while it has work",
        file: "decode/group_slot.rs",
        sound: "&& let Err(error) = self.wait_idle()",
        broken: "&& let Err(error) = Ok::<(), forebay_loader::Error>(())",
        caught_by: ("decode", "work_in_flight_outlives_a_dropped_decoder_whose_drop_returns"),
    },
    Break {
        what: "memory of an abandoned batch leaks",
        file: "partial_batch.rs",
        sound: "self.device.blocks.release(block, self.ended.take().into_iter().collect());",
        broken: "std::mem::forget(block);",
        caught_by: ("decode", "rejected::an_abandoned_batch_releases_its_memory"),
    },
    Break {
        what: "device memory is never freed",
        file: "memory.rs",
        sound: "checked(unsafe { free_sync(self.address) }, \"cuMemFree\")",
        broken: "Ok(())",
        caught_by: ("delivery", "a_slot_returns_to_its_pool_only_after_its_copy"),
    },
    Break {
        what: "rows that move up come from the wrong offset",
        file: "partial_batch.rs",
        sound: "memcpy_dtod_async(at(to), at(from), ",
        broken: "memcpy_dtod_async(at(from), at(to), ",
        caught_by: ("decode", "rejected::decoded_pictures_move_up_when_samples_were_skipped"),
    },
    Break {
        what: "a decoded picture is overwritten with its file if a later one is rejected",
        file: "decode/decoder.rs",
        sound: "std::mem::take(done), undecoded.is_empty());",
        broken: "Default::default(), undecoded.is_empty());",
        caught_by: ("decode", "rejected::rejected_pictures_are_returned_and_the_others_are_decoded_once"),
    },
    Break {
        what: "an error of the driver for a copy is ignored",
        file: "context.rs",
        sound: "checked(unsafe { memcpy_htod_async(target, source, self.handle) }, \"cuMemcpyHtoDAsync\")",
        broken: "{ let _ = unsafe { memcpy_htod_async(target, source, self.handle) }; Ok(()) }",
        caught_by: ("decode", "failure::a_failure_that_no_picture_causes_is_the_batch_s_error_and_nothing_leaks"),
    },
    Break {
        what: "files are read to memory that a consumer has not read yet",
        file: "memory.rs",
        sound: "reader.wait()",
        broken: "Ok::<(), forebay_loader::Error>(())",
        caught_by: ("direct_rows", "rows_are_read_only_to_memory_that_consumers_have_read"),
    },
    Break {
        what: "files are read to memory of an unread batch whose copy is in flight",
        file: "batch.rs",
        sound: "readers.push(self.copied.clone());",
        broken: "",
        caught_by: ("direct_rows", "memory_of_an_unread_batch_is_reused_only_after_its_copy"),
    },
    Break {
        what: "direct rows are overwritten with rows of the slot",
        file: "row_copy.rs",
        sound: "done.contains_key(&(number, row))",
        broken: "done.contains_key(&(number + 1000, row))",
        caught_by: ("direct_rows", "rows_of_each_type_are_bit_identical_to_the_host_s"),
    },
    Break {
        what: "a read slot is released before its rows have been copied",
        file: "direct_rows.rs",
        sound: "release_thread.release_after(copied, slot.into());",
        broken: "drop(slot);",
        caught_by: ("direct_rows", "copies::a_read_slot_returns_to_its_pool_only_after_its_copy"),
    },
    Break {
        what: "a batch with pictures ends before the copies of its direct rows",
        file: "partial_batch.rs",
        sound: "ended.delay(stream.handle)?;",
        broken: "let _ = ended;",
        caught_by: ("decode", "a_batch_ends_after_the_copies_of_its_direct_rows"),
    },
    Break {
        what: "memory of an unfilled batch is reused while rows are copied to it",
        file: "direct_rows.rs",
        sound: "QueuedCopies::Until(copied) => self.device.blocks.release(block, vec![copied]),",
        broken: "QueuedCopies::Until(_) => self.device.blocks.release(block, Vec::new()),",
        caught_by: ("direct_rows", "copies::memory_of_an_abandoned_batch_is_reused_after_its_copies"),
    },
    Break {
        what: "memory of a filled and abandoned batch is reused while rows are copied to it",
        file: "partial_batch.rs",
        sound: "self.ended.take().into_iter().collect()",
        broken: "Vec::new()",
        caught_by: ("direct_rows", "copies::memory_of_an_abandoned_batch_is_reused_after_its_copies"),
    },
    Break {
        what: "read slots wait for consumers of batches",
        file: "direct_rows.rs",
        sound: "let stream = self.device.streams.open(&self.device.context)?;",
        broken: "let stream = self.device.stream.clone();",
        caught_by: ("direct_rows", "copies::a_read_slot_does_not_wait_for_a_consumer"),
    },
    Break {
        what: "work after memory has run out is waited for with the device, which ends captures",
        file: "decode/group_slot.rs",
        sound: "self.streams.iter().try_for_each(|stream| stream.wait())?;",
        broken: "self.context.synchronize()?;",
        caught_by: ("decode", "failure::everything_is_rejected_after_memory_has_run_out"),
    },
    Break {
        what: "large pictures without memory for pixels count as rejected by the backend",
        file: "decode/submit.rs",
        sound: "self.tally.without_memory += 1;",
        broken: "self.tally.without_memory += 0;",
        caught_by: ("decode", "failure::large_pictures_without_memory_do_not_count_against_a_backend"),
    },
    Break {
        what: "large pictures without memory in the library count as rejected by the backend",
        file: "decode/submit.rs",
        sound: "rejections.without_memory += 1;",
        broken: "rejections.reason = Some(failure);",
        caught_by: ("decode", "failure::large_pictures_without_memory_do_not_count_against_a_backend"),
    },
    Break {
        what: "the size of a large picture is the size of its decoded region",
        file: "decode/submit.rs",
        sound: "item.is_large(Extent::Whole)",
        broken: "item.is_large(extent(backend))",
        caught_by: ("decode", "failure::large_pictures_without_memory_do_not_count_against_a_backend"),
    },
    Break {
        what: "the drop of a decoder does not wait for its end",
        file: "release.rs",
        sound: "is_dropped.recv_timeout(DROP_WAIT_MAX)",
        broken: "is_dropped.recv_timeout(Duration::ZERO)",
        caught_by: ("decode", "the_drop_of_a_decoder_waits_for_its_end"),
    },
    Break {
        what: "an epoch starts on a lost device",
        file: "device.rs",
        sound: "self.opened.has_fired().map(drop)",
        broken: "Ok(())",
        caught_by: ("direct_rows", "lost_device::a_device_lost_at_any_call_ends_the_epoch_and_blocks_no_thread"),
    },
    Break {
        what: "rows are copied to memory that a consumer has not read yet",
        file: "memory.rs",
        sound: "blocks[*i].is_idle()?",
        broken: "true",
        caught_by: ("direct_rows", "copies::memory_that_may_still_be_read_is_not_used_for_direct_rows"),
    },
    Break {
        what: "a short read counts as a complete one",
        file: "cufile/safe.rs",
        sound: "read += read_bytes;",
        broken: "read = bytes;",
        caught_by: ("direct_rows", "a_sample_with_a_single_direct_row_is_not_read_by_the_host"),
    },
    Break {
        what: "files stay registered with cuFile",
        file: "cufile/safe.rs",
        sound: "unsafe { result::deregister(&self.driver.library, self.handle) };",
        broken: "",
        caught_by: ("direct_rows", "closing_a_loader_releases_files_and_memory"),
    },
    Break {
        what: "direct rows are lost when pictures are rejected",
        file: "decode/decoder.rs",
        sound: "direct.map(|rows| Box::new(rows) as Box<dyn DeviceRows>)",
        broken: "direct.and_then(|rows| { drop(rows); None::<Box<dyn DeviceRows>> })",
        caught_by: ("direct_rows", "direct_rows_remain_when_the_device_abandons_decoding_their_pictures"),
    },
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's folder")
}

impl Break {
    /// Returns the text of the broken file.
    fn text(&self) -> String {
        let path = root().join("gpu/src").join(self.file);
        let text = std::fs::read_to_string(path).expect("a file of the crate's");
        let (places, what) = (text.matches(self.sound).count(), self.what);
        assert_eq!(places, 1, "`{}` must occur once in {}, for \"{what}\"", self.sound, self.file);
        text.replace(self.sound, self.broken)
    }
}

#[test]
fn every_break_matches_its_source_and_its_test() {
    for one in BREAKS {
        one.text();
        let (suite, test) = one.caught_by;
        let (module, name) = test.rsplit_once("::").unwrap_or(("main", test));
        let files =
            [format!("{suite}.rs"), format!("{suite}/{module}.rs")].map(|file| root().join("gpu/tests").join(file));
        let text = files.iter().find_map(|file| std::fs::read_to_string(file).ok()).expect("a suite");
        assert!(text.contains(&format!("#[test]\nfn {name}()")), "{suite} has no test {test}");
    }
}

/// Copy of the workspace. The next run reuses its builds.
struct Copy(PathBuf);

impl Copy {
    fn new() -> Self {
        let copy = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join("breaks"));
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root())
            .output()
            .expect("git");
        for path in String::from_utf8(listed.stdout).expect("names").split_terminator('\0') {
            // A deleted file is listed until the deletion is committed.
            if let Ok(bytes) = std::fs::read(root().join(path)) {
                copy.write(path, &bytes);
            }
        }
        copy
    }

    /// Writes a file unless it is unchanged, since newer files are rebuilt.
    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.0.join("tree").join(path);
        if std::fs::read(&path).is_ok_and(|old| old == bytes) {
            return;
        }
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }

    /// Returns the command that runs tests of the crate with a time limit.
    fn cargo(&self, seconds: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command
            .arg(seconds)
            .arg(env!("CARGO"))
            .args(["test", "--quiet", "--locked", "-p", "forebay-gpu"])
            .args(arguments);
        command.current_dir(self.0.join("tree")).env("CARGO_TARGET_DIR", self.0.join("target"));
        command
    }

    /// Returns whether the test passes; `None` if it exceeds the limit.
    fn passes(&self, (suite, test): (&str, &str)) -> Option<bool> {
        // The compiler has no limit.
        let built = self.cargo("0", &["--test", suite, "--no-run"]).output().expect("cargo");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let mut run = self.cargo(LIMIT, &["--test", suite, "--", "--exact", test]);
        let status = run.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("cargo");
        (status.code() != Some(TIMED_OUT)).then_some(status.success())
    }
}

#[test]
#[ignore = "builds the crate once for each break"]
fn every_break_is_caught() {
    let copy = Copy::new();
    let only = std::env::var("BREAKS").unwrap_or_default();
    let breaks: Vec<_> =
        BREAKS.into_iter().filter(|one| one.file.contains(&only) || one.caught_by.0.contains(&only)).collect();
    assert!(!breaks.is_empty(), "no break is in files with {only} in their names");
    let mut missed = Vec::new();
    // A test that fails without the break proves nothing.
    let tests: BTreeSet<_> = breaks.iter().map(|one| one.caught_by).collect();
    for test in tests {
        assert_eq!(copy.passes(test), Some(true), "{test:?} in the unbroken crate");
    }
    for one in breaks {
        let path = format!("gpu/src/{}", one.file);
        copy.write(&path, one.text().as_bytes());
        let passes = copy.passes(one.caught_by);
        let (_, test) = one.caught_by;
        println!("passes: {passes:?}: {}, {test}", one.what);
        if passes != Some(false) {
            missed.push(one.what);
        }
        copy.write(&path, &std::fs::read(root().join(&path)).expect("a file of the crate's"));
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
