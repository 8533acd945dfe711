//! Proof that the tests over the stand-ins notice what they are there for: the crate is broken on purpose, one way at a
//! time, in a copy, and the test that is named with the break must fail there.
//!
//! `cargo test -p forebay-gpu --test breaks -- --ignored --nocapture` takes minutes; `BREAKS=early` before it has only those in
//! files with that in their names, or in their suites'. That each break still has its place in the source is checked always.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Seconds. A test that has not ended by then waits for what never comes, which is not noticing.
const LIMIT: &str = "120";

/// What `timeout` answers then.
const TIMED_OUT: i32 = 124;

/// One way to break the crate.
struct Break {
    /// What is wrong then.
    what: &'static str,
    /// In `gpu/src`.
    file: &'static str,
    /// Stands there once...
    sound: &'static str,
    /// ...and becomes this.
    broken: &'static str,
    /// The suite in `gpu/tests`, and the test of it that must fail.
    noticed_by: (&'static str, &'static str),
}

const BREAKS: [Break; 50] = [
    Break {
        what: "a slot is used again before its copy has been done",
        file: "release.rs",
        sound: "Ok(ReleaseRequest::AfterEvent(copied, slot)) => drop(leak_on_error(copied.wait(), slot)),",
        broken: "Ok(ReleaseRequest::AfterEvent(_, slot)) => drop(leak_on_error(Ok(()), slot)),",
        noticed_by: ("target", "a_slot_returns_to_its_pool_only_after_its_copy"),
    },
    Break {
        what: "a slot with files is used again before they have been read",
        file: "decode/decoder.rs",
        sound: "batch.ended.wait()?;",
        broken: "",
        noticed_by: ("pictures", "a_slot_with_files_goes_back_when_they_have_been_read"),
    },
    Break {
        what: "the same of a batch that nobody wants any more",
        file: "decode/in_flight.rs",
        sound: "self.state.release_slot_after(self.ended.clone(), filled);",
        broken: "drop(filled);",
        noticed_by: ("pictures", "a_slot_with_files_goes_back_when_they_have_been_read"),
    },
    Break {
        what: "memory of such a batch is written while the device still uses it",
        file: "decode/in_flight.rs",
        sound: "self.state.blocks.release(block, vec![self.ended.clone()]);",
        broken: "self.state.blocks.release(block, Vec::new());",
        noticed_by: (
            "pictures",
            "a_batch_that_nobody_wants_any_more_is_not_overwritten_before_the_device_is_done_with_it",
        ),
    },
    Break {
        what: "a large picture without memory is the end of all decoding",
        file: "decode/submit.rs",
        sound: "1 if group.pixel_bytes < LARGE_BYTES => Err(error),",
        broken: "1 if group.pixel_bytes < usize::MAX => Err(error),",
        noticed_by: ("pictures", "failure::a_large_picture_that_finds_no_memory_is_refused_alone"),
    },
    Break {
        what: "nobody looks for pictures that were left out",
        file: "decode/submit.rs",
        sound: "unsafe { kernels.find_undecoded(list_at, list.len(), stream) }",
        broken: "{ let _ = list_at; Ok(()) }",
        noticed_by: ("pictures", "left_out::pictures_that_are_left_out_come_back_and_the_others_are_not_decoded_again"),
    },
    Break {
        what: "pixels of other pictures are in places of those that are left out",
        file: "decode/submit.rs",
        sound: "unsafe { resources.stream.fill(scratch, BLANK, group.scratch_bytes()) }?;",
        broken: "",
        noticed_by: ("pictures", "left_out::pictures_that_are_left_out_of_a_batch_behind_another_are_found"),
    },
    Break {
        what: "places in new memory are not blank",
        file: "decode/group_slot.rs",
        sound: "block.fill(BLANK, stream)?;",
        broken: "let _ = (BLANK, stream);",
        noticed_by: ("pictures", "left_out::pictures_that_are_left_out_come_back_and_the_others_are_not_decoded_again"),
    },
    Break {
        what: "pixels of a group that failed are in places of pictures that are left out",
        file: "decode/group_slot.rs",
        sound: "self.streams.iter().try_for_each(|stream| stream.wait())?;\n                self.is_blank = false;",
        broken: "self.streams.iter().try_for_each(|stream| stream.wait())?;",
        noticed_by: ("pictures", "left_out::pictures_that_are_left_out_behind_a_group_that_failed_are_found"),
    },
    Break {
        what: "what engines began before they refused a batch stands for pictures that are left out",
        file: "decode/submit.rs",
        sound: "clear(resources, part)?;",
        broken: "",
        noticed_by: ("pictures", "left_out::a_picture_that_is_left_out_beside_one_that_is_refused_comes_back_with_it"),
    },
    Break {
        what: "a slot comes back while the device still reads files that were not refused",
        file: "decode/decoder.rs",
        sound: "match self.resources.wait_for_streams() {",
        broken: "match Ok::<(), Error>(()) {",
        noticed_by: ("pictures", "refused::refused_pictures_come_back_and_the_others_are_not_decoded_again"),
    },
    Break {
        what: "pictures are decoded to memory that is too small",
        file: "decode/group_slot.rs",
        sound: "filter(|block| block.len() >= bytes)",
        broken: "filter(|block| block.len() > 0)",
        noticed_by: ("pictures", "memory_of_the_device_grows_with_batches"),
    },
    Break {
        what: "streams wait for the default stream",
        file: "context.rs",
        sound: "stream::StreamKind::NonBlocking",
        broken: "stream::StreamKind::Default",
        noticed_by: ("target", "a_slot_returns_to_its_pool_only_after_its_copy"),
    },
    Break {
        what: "calls end another thread's capture of a graph",
        file: "context.rs",
        sound: "CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED",
        broken: "CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL",
        noticed_by: ("target", "nothing_ends_another_thread_s_capture_of_a_graph"),
    },
    Break {
        what: "a consumer does not wait for the copy",
        file: "batch.rs",
        sound: "self.copied.delay(dlpack_stream(number))?;",
        broken: "",
        noticed_by: ("target", "a_consumer_that_asked_for_order_reads_after_the_copy"),
    },
    Break {
        what: "somebody's capture is ended by a wait for the device",
        file: "batch.rs",
        sound: "Ok(None) => self.state.release_block_after_consumers(block, streams),",
        broken: "Ok(None) => self.state.release_block_after_device(block),",
        noticed_by: ("target", "a_batch_is_not_a_part_of_a_graph_that_its_consumer_captures"),
    },
    Break {
        what: "an event of ours becomes a part of somebody's graph",
        file: "release.rs",
        sound: "if context.is_captured(dlpack_stream(*number))? {",
        broken: "if false {",
        noticed_by: ("target", "a_batch_is_not_a_part_of_a_graph_that_its_consumer_captures"),
    },
    Break {
        what: "memory of the device is written before its reader has been there",
        file: "memory.rs",
        sound: "reader.delay(stream.handle)?;",
        broken: "drop(reader);",
        noticed_by: ("target", "device_memory_is_used_again_only_after_its_reader"),
    },
    Break {
        what: "the same where pictures are decoded into it",
        file: "memory.rs",
        sound: "reader.delay(stream.handle)?;",
        broken: "drop(reader);",
        noticed_by: ("pictures", "rows_are_written_only_where_a_consumer_has_read"),
    },
    Break {
        what: "engines write to pixels that the kernel has yet to read",
        file: "decode/group_slot.rs",
        sound: "self.done.wait()?;",
        broken: "",
        noticed_by: ("pictures", "engines_write_only_where_nothing_is_read_any_more"),
    },
    Break {
        what: "the kernel does not wait for the engines",
        file: "decode/submit.rs",
        sound: "engines.done.delay(stream)?;",
        broken: "",
        noticed_by: ("pictures", "pictures_are_the_host_s_in_every_type_and_layout_beside_rows_that_are_done"),
    },
    Break {
        what: "the engines wait for the cores",
        file: "decode/submit.rs",
        sound: "let by_engines = match",
        broken: "if let Some(cores) = &group_slot.cores { cores.done.delay(resources.engines_stream.handle)?; } let by_engines = match",
        noticed_by: ("pictures", "share::engines_and_cores_decode_at_the_same_time_and_each_gets_what_it_can_do"),
    },
    Break {
        what: "the cores get their pictures when the engines' call has come back",
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
        noticed_by: ("pictures", "share::engines_and_cores_decode_at_the_same_time_and_each_gets_what_it_can_do"),
    },
    Break {
        what: "engines that decode something else get pictures",
        file: "decode/selftest.rs",
        sound: "if !difference.is_within(max) {",
        broken: "if difference.mean > 255.0 {",
        noticed_by: ("pictures", "opening::engines_that_decode_something_else_are_not_used"),
    },
    Break {
        what: "nobody looks at what the cores' last groups took",
        file: "decode/group_slot.rs",
        sound: "cores: time(&self.cores)? }",
        broken: "cores: None }",
        noticed_by: ("pictures", "share::engines_and_cores_decode_at_the_same_time_and_each_gets_what_it_can_do"),
    },
    Break {
        what: "half of a refused batch is decoded while the other half is under way",
        file: "decode/submit.rs",
        sound: "resources.wait_for_streams()?;",
        broken: "",
        noticed_by: ("pictures", "refused::refused_pictures_come_back_and_the_others_are_not_decoded_again"),
    },
    Break {
        what: "a decoder ends while it has work",
        file: "decode/group_slot.rs",
        sound: "&& let Err(error) = self.wait_idle()",
        broken: "&& let Err(error) = Ok::<(), forebay_loader::Error>(())",
        noticed_by: ("pictures", "what_a_decoder_has_begun_outlives_it_and_nobody_waits_for_ever"),
    },
    Break {
        what: "memory of a batch that does not come again is lost",
        file: "partial_batch.rs",
        sound: "self.state.blocks.release(block, self.copied.take().into_iter().collect());",
        broken: "std::mem::forget(block);",
        noticed_by: ("pictures", "refused::a_batch_that_does_not_come_again_gives_its_memory_back"),
    },
    Break {
        what: "memory of the device is never freed",
        file: "memory.rs",
        sound: "checked(unsafe { free_sync(self.address) }, \"cuMemFree\")",
        broken: "Ok(())",
        noticed_by: ("target", "a_slot_returns_to_its_pool_only_after_its_copy"),
    },
    Break {
        what: "rows that move up come from the wrong place",
        file: "partial_batch.rs",
        sound: "memcpy_dtod_async(at(to), at(from), ",
        broken: "memcpy_dtod_async(at(from), at(to), ",
        noticed_by: ("pictures", "refused::pictures_that_are_done_move_up_where_samples_were_given_up"),
    },
    Break {
        what: "a picture that was not refused is decoded again",
        file: "decode/decoder.rs",
        sound: "before.as_ref().is_none_or(|before| !before.contains(picture))",
        broken: "before.as_ref().is_none_or(|before| !before.contains(picture) || true)",
        noticed_by: ("pictures", "refused::refused_pictures_come_back_and_the_others_are_not_decoded_again"),
    },
    Break {
        what: "what the driver says about a copy is not heard",
        file: "context.rs",
        sound: "checked(unsafe { memcpy_htod_async(target, source, self.handle) }, \"cuMemcpyHtoDAsync\")",
        broken: "{ let _ = unsafe { memcpy_htod_async(target, source, self.handle) }; Ok(()) }",
        noticed_by: ("pictures", "failure::a_failure_that_is_no_picture_s_is_the_batch_s_error_and_nothing_is_lost"),
    },
    Break {
        what: "files are read to where a consumer has yet to read",
        file: "memory.rs",
        sound: "reader.wait()",
        broken: "Ok::<(), forebay_loader::Error>(())",
        noticed_by: ("early", "rows_are_read_only_where_a_consumer_has_read"),
    },
    Break {
        what: "files are read to where a copy that nobody has looked at is under way",
        file: "batch.rs",
        sound: "readers.push(self.copied.clone());",
        broken: "",
        noticed_by: ("early", "memory_of_a_batch_that_nobody_has_looked_at_is_read_to_after_its_copy"),
    },
    Break {
        what: "rows that were read are written over with what the slot has there",
        file: "row_copy.rs",
        sound: "done.contains_key(&(number, row))",
        broken: "done.contains_key(&(number + 1000, row))",
        noticed_by: ("early", "rows_of_every_type_are_the_host_s_to_the_bit"),
    },
    Break {
        what: "a read slot is used again before its rows have been copied",
        file: "direct_rows.rs",
        sound: "release_thread.release_after(copied, slot.into());",
        broken: "drop(slot);",
        noticed_by: ("early", "copied::a_read_slot_returns_to_its_pool_only_after_its_copy"),
    },
    Break {
        what: "pictures are decoded for a batch whose rows are still being copied, and it ends before them",
        file: "partial_batch.rs",
        sound: "copied.delay(stream.handle)?;",
        broken: "let _ = copied;",
        noticed_by: ("pictures", "a_batch_ends_behind_rows_that_are_copied_to_it_by_themselves"),
    },
    Break {
        what: "memory of a batch that is not filled is used again while rows are copied to it",
        file: "direct_rows.rs",
        sound: "QueuedCopies::Until(copied) => self.state.blocks.release(block, vec![copied]),",
        broken: "QueuedCopies::Until(_) => self.state.blocks.release(block, Vec::new()),",
        noticed_by: ("early", "copied::memory_of_a_batch_that_is_given_up_is_written_after_its_copies"),
    },
    Break {
        what: "the same of one that is filled and does not come",
        file: "partial_batch.rs",
        sound: "self.copied.take().into_iter().collect()",
        broken: "Vec::new()",
        noticed_by: ("early", "copied::memory_of_a_batch_that_is_given_up_is_written_after_its_copies"),
    },
    Break {
        what: "read slots wait for whoever reads memory of batches",
        file: "direct_rows.rs",
        sound: "let stream = self.state.streams.open(&self.state.context)?;",
        broken: "let stream = self.state.stream.clone();",
        noticed_by: ("early", "copied::a_read_slot_does_not_wait_for_a_consumer"),
    },
    Break {
        what: "what an end without memory leaves is waited for with the device, which ends captures",
        file: "decode/group_slot.rs",
        sound: "self.streams.iter().try_for_each(|stream| stream.wait())?;",
        broken: "self.context.synchronize()?;",
        noticed_by: ("pictures", "failure::where_memory_ends_everything_is_refused_from_then_on"),
    },
    Break {
        what: "large pictures without memory for their pixels say that none is taken",
        file: "decode/submit.rs",
        sound: "self.tally.without_memory += 1;",
        broken: "self.tally.without_memory += 0;",
        noticed_by: ("pictures", "failure::that_there_is_no_memory_for_large_pictures_says_nothing_of_others"),
    },
    Break {
        what: "large pictures for which the library has no memory say that none is taken",
        file: "decode/submit.rs",
        sound: "rejections.without_memory += 1;",
        broken: "rejections.reason = Some(failure);",
        noticed_by: ("pictures", "failure::that_there_is_no_memory_for_large_pictures_says_nothing_of_others"),
    },
    Break {
        what: "a large picture is as large as the part that is decoded",
        file: "decode/submit.rs",
        sound: "item.is_large(Extent::Whole)",
        broken: "item.is_large(extent(backend))",
        noticed_by: ("pictures", "failure::that_there_is_no_memory_for_large_pictures_says_nothing_of_others"),
    },
    Break {
        what: "a decoder outlives its drop",
        file: "release.rs",
        sound: "is_dropped.recv_timeout(DROP_WAIT_MAX)",
        broken: "is_dropped.recv_timeout(Duration::ZERO)",
        noticed_by: (
            "pictures",
            "a_batch_that_nobody_wants_any_more_is_not_overwritten_before_the_device_is_done_with_it",
        ),
    },
    Break {
        what: "an epoch begins on a device that is lost",
        file: "state.rs",
        sound: "self.opened.has_fired().map(drop)",
        broken: "Ok(())",
        noticed_by: ("early", "lost::a_device_that_is_lost_at_any_call_ends_the_epoch_and_nobody_waits"),
    },
    Break {
        what: "rows are copied to where a consumer has yet to read",
        file: "memory.rs",
        sound: "blocks[*i].is_idle()?",
        broken: "true",
        noticed_by: ("early", "copied::memory_that_may_still_be_read_takes_no_rows"),
    },
    Break {
        what: "a read that is too short counts as one",
        file: "cufile/safe.rs",
        sound: "read += read_bytes;",
        broken: "read = bytes;",
        noticed_by: ("early", "a_sample_that_is_nothing_but_one_row_is_not_read_by_the_host"),
    },
    Break {
        what: "cuFile keeps files",
        file: "cufile/safe.rs",
        sound: "unsafe { result::deregister(&self.driver.library, self.handle) };",
        broken: "",
        noticed_by: ("early", "a_loader_that_is_closed_lets_go_of_files_and_memory"),
    },
    Break {
        what: "rows that were read are lost when pictures are refused",
        file: "decode/decoder.rs",
        sound: "before.map(|before| Box::new(before.without(pictures)) as DeviceRows)",
        broken: "before.and_then(|before| { drop(before.without(pictures)); None::<DeviceRows> })",
        noticed_by: ("early", "rows_stand_beside_pictures_that_the_device_decodes_and_stay_when_it_gives_up"),
    },
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's folder")
}

impl Break {
    /// The file, broken.
    fn text(&self) -> String {
        let path = root().join("gpu/src").join(self.file);
        let text = std::fs::read_to_string(path).expect("a file of the crate's");
        let (places, what) = (text.matches(self.sound).count(), self.what);
        assert_eq!(places, 1, "`{}` stands in {} so many times: where is \"{what}\" now?", self.sound, self.file);
        text.replace(self.sound, self.broken)
    }
}

#[test]
fn every_break_has_its_place_in_the_source_and_a_test() {
    for one in BREAKS {
        one.text();
        let (suite, test) = one.noticed_by;
        let (module, name) = test.rsplit_once("::").unwrap_or(("main", test));
        let files =
            [format!("{suite}.rs"), format!("{suite}/{module}.rs")].map(|file| root().join("gpu/tests").join(file));
        let text = files.iter().find_map(|file| std::fs::read_to_string(file).ok()).expect("a suite");
        assert!(text.contains(&format!("#[test]\nfn {name}()")), "{suite} has no test {test}");
    }
}

/// The workspace in a folder of its own, whose builds the next run finds again.
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
            // What was deleted is listed until it is committed.
            if let Ok(bytes) = std::fs::read(root().join(path)) {
                copy.write(path, &bytes);
            }
        }
        copy
    }

    /// Writes a file, unless it is the same: what is newer is built anew.
    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.0.join("tree").join(path);
        if std::fs::read(&path).is_ok_and(|old| old == bytes) {
            return;
        }
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }

    /// Runs the crate's tests for so many seconds.
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

    /// Whether the test passes; `None` if it does not end.
    fn passes(&self, (suite, test): (&str, &str)) -> Option<bool> {
        // No limit for the compiler.
        let built = self.cargo("0", &["--test", suite, "--no-run"]).output().expect("cargo");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let mut run = self.cargo(LIMIT, &["--test", suite, "--", "--exact", test]);
        let status = run.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("cargo");
        (status.code() != Some(TIMED_OUT)).then_some(status.success())
    }
}

#[test]
#[ignore = "builds the crate once for each break"]
fn every_break_is_noticed() {
    let copy = Copy::new();
    let only = std::env::var("BREAKS").unwrap_or_default();
    let breaks: Vec<_> =
        BREAKS.into_iter().filter(|one| one.file.contains(&only) || one.noticed_by.0.contains(&only)).collect();
    assert!(!breaks.is_empty(), "no break is in files with {only} in their names");
    let mut wrong = Vec::new();
    // What fails in any copy notices nothing.
    let tests: BTreeSet<_> = breaks.iter().map(|one| one.noticed_by).collect();
    for test in tests {
        assert_eq!(copy.passes(test), Some(true), "{test:?} in the sound crate");
    }
    for one in breaks {
        let path = format!("gpu/src/{}", one.file);
        copy.write(&path, one.text().as_bytes());
        let answer = copy.passes(one.noticed_by);
        let (_, test) = one.noticed_by;
        println!("{answer:?}: {}, {test}", one.what);
        if answer != Some(false) {
            wrong.push(one.what);
        }
        copy.write(&path, &std::fs::read(root().join(&path)).expect("a file of the crate's"));
    }
    assert!(wrong.is_empty(), "nobody noticed: {wrong:?}");
}
