//! Pictures decoded on the device, over stand-ins for driver and nvJPEG that do everything as late as is legal, but for
//! the engines, which write when they are called.

mod failure;
#[path = "../fake/mod.rs"]
mod fake;
mod left_out;
mod opening;
mod refused;
mod rig;
mod share;

use fake::{BYTES, Rig};
use forebay_loader::decode::{DType, Layout};
use forebay_loader::delivery::Delivery;
use forebay_loader::memory::{ReadPool, ReadPoolConfig};
use rig::*;
use std::ffi::c_int;

#[test]
fn pictures_are_the_host_s_in_every_type_and_layout_beside_rows_that_are_done() {
    for engines in [2, 0] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        nvjpeg.engines(engines);
        let decoder = open(&rig, &nvjpeg);
        for (dtype, layout) in
            [(DType::UInt8, Layout::Nhwc), (DType::UInt8, Layout::Nchw), (DType::Float32, Layout::Nchw)]
        {
            let form = Form::new(dtype, layout);
            for (decoded, rows) in
                [(vec![], all()), (vec![2, 3], all()), (vec![0], vec![0, 1, 4]), (vec![5], vec![2, 3, 5])]
            {
                let (slot, mut pictures) = form.fill(&rig, 10, &decoded, &[]);
                pictures.retain(|picture| rows.contains(&picture.row));
                let memory = form.done(&decoder, (slot, pictures), &rows);
                form.check(&rig, &*memory, 10, &rows);
                drop(memory);
                rig.call("fake_cuda_run");
            }
        }
        let (by_engines, by_cores) = nvjpeg.counts();
        assert_eq!((by_engines > 0, by_cores > 0), (engines > 0, engines == 0), "{by_engines} and {by_cores}");
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn memory_of_the_device_grows_with_batches() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig, &nvjpeg);
    // The pixels of the small ones fit into a page of the device's, those of the others do not; both lanes get both.
    for rows in [4, 4, 130, 130, 4] {
        let form = Form::with_rows(rows, DType::UInt8, Layout::Nhwc);
        let all: Vec<usize> = (0..rows).collect();
        let memory = form.done(&decoder, form.fill(&rig, 30, &[], &[]), &all);
        form.check(&rig, &*memory, 30, &all);
    }
    end(rig, &nvjpeg, decoder);
}

#[test]
fn engines_write_only_where_nothing_is_read_any_more() {
    let (rig, nvjpeg) = (Rig::with_slots(4, "", 0), NvJpeg::new());
    // So many that they get all pictures: no wait for who ends first stands in for the one for the kernel.
    nvjpeg.engines(ROWS as c_int);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    decoder.warm(&rig, &form);
    nvjpeg.counts();
    let fill = |seed| form.fill(&rig, seed, &[], &[]);
    let [first, second] = [100, 200].map(|seed| form.start(&decoder, fill(seed)));
    // Nothing has moved: the kernel has yet to read both lanes' pixels, so the third batch waits on the host.
    let third = std::thread::scope(|scope| {
        let third = scope.spawn(|| form.start(&decoder, fill(300)));
        assert!(rig.await_waiters(1), "the third batch does not wait for the first");
        rig.call("fake_cuda_run");
        third.join().expect("placed")
    });
    for (batch, seed) in [(first, 100), (second, 200), (third, 300)] {
        form.check(&rig, &*decoder.ended(batch), seed, &all());
    }
    assert_eq!(nvjpeg.counts(), (3 * ROWS as c_int, 0));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn files_are_found_wherever_they_lie_in_the_slot() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let (mut slot, mut pictures) = form.fill(&rig, 90, &[], &[]);
    let mut end_of_room = BYTES;
    let bytes = slot.bytes_mut().expect("all of it");
    for picture in pictures.iter_mut().filter(|picture| picture.row % 3 == 1) {
        let file = picture.at..picture.at + picture.picture.bytes;
        end_of_room -= picture.picture.bytes;
        bytes.copy_within(file.clone(), end_of_room);
        bytes[file].fill(0);
        picture.at = end_of_room;
    }
    let memory = form.done(&decoder, (slot, pictures), &all());
    form.check(&rig, &*memory, 90, &all());
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_slot_with_files_goes_back_when_they_have_been_read() {
    // Cores read files in their stream's order.
    for is_wanted in [true, false] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        nvjpeg.engines(0);
        let decoder = open(&rig, &nvjpeg);
        let form = Form::new(DType::UInt8, Layout::Nhwc);
        decoder.warm(&rig, &form);
        let batch = form.start(&decoder, form.fill(&rig, 40, &[1], &[]));
        if is_wanted {
            assert_eq!(rig.pool.state().free_bytes, 0);
            let memory = decoder.ended(batch);
            rig.pool.take(BYTES).expect("a slot").bytes_mut().expect("all of it").fill(9);
            form.check(&rig, &*memory, 40, &all());
        } else {
            drop(batch);
            // The thread that gives slots back.
            assert_eq!(rig.call("fake_cuda_await_waiter"), 1);
            assert_eq!(rig.pool.state().free_bytes, 0);
            rig.call("fake_cuda_run");
            rig.pool.take(BYTES).expect("a slot").bytes_mut().expect("all of it").fill(9);
            // In the memory of the one that nobody wanted.
            let memory = form.done(&decoder, form.fill(&rig, 60, &[], &[]), &all());
            form.check(&rig, &*memory, 60, &all());
        }
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn a_batch_ends_behind_rows_that_are_copied_to_it_by_themselves() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    decoder.warm(&rig, &form);
    let (mut slot, pictures) = form.fill(&rig, 40, &[], &[]);
    let numbers = form.outputs[1].offset..form.outputs[1].offset + ROWS * 8;
    let config = ReadPoolConfig { bytes: 1 << 20, populate: false, ..ReadPoolConfig::default() };
    let reads = ReadPool::with_registrar(&config, rig.target.registrar()).expect("a pool");
    let mut sample = reads.lease(numbers.len()).expect("a slot");
    let bytes = slot.bytes_mut().expect("all of it");
    sample.bytes_mut().copy_from_slice(&bytes[numbers.clone()]);
    bytes[numbers.clone()].fill(0);
    let early = rig.target.direct_rows().expect("a device").allocate(BYTES, false).expect("memory").expect("unused");
    early.copy(sample, &[(0..numbers.len(), numbers.start)]).expect("started");
    let done: Vec<_> = (0..ROWS).map(|row| (1, row)).collect();
    let decoded = early.finish(ROWS, &done).expect("filled");
    // The thread that gives slots back waits for that copy, and does not move it.
    assert_eq!(rig.call("fake_cuda_await_waiter"), 1);
    let batch = form.start_with(&decoder, (slot, pictures), Some(decoded));
    form.check(&rig, &*decoder.ended(batch), 40, &all());
    rig.call("fake_cuda_run");
    drop((early, reads));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_batch_that_nobody_wants_any_more_is_not_overwritten_before_the_device_is_done_with_it() {
    let (rig, nvjpeg) = (Rig::with_slots(2, "", 0), NvJpeg::new());
    nvjpeg.engines(0);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    decoder.warm(&rig, &form);
    let allocated = rig.call("fake_cuda_allocated");
    drop(form.start(&decoder, form.fill(&rig, 40, &[], &[])));
    // On another stream, where only its wait for the first keeps its copy behind the first's kernel.
    let (slot, _) = form.fill(&rig, 80, &all(), &[]);
    let second = rig.target.deliver(slot.freeze().expect("filled"), BYTES).expect("placed");
    assert_eq!(rig.call("fake_cuda_allocated"), allocated, "it has memory of its own");
    form.check(&rig, &*second, 80, &all());
    rig.call("fake_cuda_run");
    form.check(&rig, &*second, 80, &all());
    drop(second);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn what_a_decoder_has_begun_outlives_it_and_nobody_waits_for_ever() {
    let (rig, nvjpeg) = (Rig::with_slots(2, "", 0), NvJpeg::new());
    let mut decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    decoder.warm(&rig, &form);
    // Both lanes have something to do: memory of one that has nothing would be freed, and that waits for the device.
    let batches = [50, 80].map(|seed| form.start(&decoder, form.fill(&rig, seed, &[], &[])));
    // Comes back.
    drop(decoder.decoder.take());
    assert!(rig.await_waiters(1), "the library's states end while their batch is under way");
    assert!(nvjpeg.call("fake_nvjpeg_live") > 0);
    rig.call("fake_cuda_run");
    drop(batches);
    nothing_is_left(rig, &nvjpeg);
}

#[test]
fn rows_are_written_only_where_a_consumer_has_read() {
    let (rig, nvjpeg) = (Rig::with_slots(2, "", 0), NvJpeg::new());
    // A wait of the engines' stream would hold back the other one, too.
    nvjpeg.engines(0);
    let decoder = open(&rig, &nvjpeg);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    decoder.warm(&rig, &form);
    let first = form.done(&decoder, form.fill(&rig, 40, &[], &[]), &all());
    first.order_before(None).expect("ordered");
    let later = rig.read_later(&*first);
    drop(first);
    // In the memory of the first, whose read is still queued.
    let second = form.start(&decoder, form.fill(&rig, 80, &[], &[]));
    rig.run_copies();
    rig.call("fake_cuda_run");
    let second = decoder.ended(second);
    let picture = &later[..form.outputs[0].row_bytes];
    let host = form.on_host(&file(40), &stage(40));
    assert!(picture.iter().zip(&host).all(|(a, b)| a.abs_diff(*b) <= 1), "the consumer saw another batch");
    form.check(&rig, &*second, 80, &all());
    drop(second);
    end(rig, &nvjpeg, decoder);
}
