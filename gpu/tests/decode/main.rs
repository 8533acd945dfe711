//! Decoding on the device, over a fake driver and a fake nvJPEG that do everything as late as is legal, except the
//! engines, which write when they are called.

mod balance;
mod failure;
#[path = "../fake/mod.rs"]
mod fake;
mod opening;
mod rejected;
mod rig;
mod undecoded;

use fake::{BYTES, Rig};
use forebay_loader::decode::{DType, PixelLayout};
use forebay_loader::delivery::Delivery;
use forebay_loader::memory::{ReadPool, ReadPoolConfig};
use rig::*;
use std::ffi::c_int;

#[test]
fn pictures_equal_the_host_s_in_each_type_and_layout_next_to_finished_rows() {
    for engines in [2, 0] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        nvjpeg.set_engines(engines);
        let decoder = open(&rig, &nvjpeg);
        for (dtype, layout) in
            [(DType::UInt8, PixelLayout::Nhwc), (DType::UInt8, PixelLayout::Nchw), (DType::Float32, PixelLayout::Nchw)]
        {
            let form = BatchForm::new(dtype, layout);
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
fn device_memory_grows_with_batches() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.wait_mode().advance(true);
    let decoder = open(&rig, &nvjpeg);
    // The pixels of small batches fit into one page of device memory, the pixels of larger batches do not. Both group
    // slots get both sizes.
    for rows in [4, 4, 130, 130, 4] {
        let form = BatchForm::with_rows(rows, DType::UInt8, PixelLayout::Nhwc);
        let all: Vec<usize> = (0..rows).collect();
        let memory = form.done(&decoder, form.fill(&rig, 30, &[], &[]), &all);
        form.check(&rig, &*memory, 30, &all);
    }
    end(rig, &nvjpeg, decoder);
}

#[test]
fn engines_write_only_to_memory_that_is_not_read_any_more() {
    let (rig, nvjpeg) = (Rig::with_slots(4, "", 0), NvJpeg::new());
    // Enough engines for all pictures: otherwise a wait for a second backend could replace the wait for the kernel.
    nvjpeg.set_engines(ROWS as c_int);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    decoder.warm(&rig, &form);
    nvjpeg.counts();
    let fill = |seed| form.fill(&rig, seed, &[], &[]);
    let [first, second] = [100, 200].map(|seed| form.start(&decoder, fill(seed)));
    // No stream has advanced, so the kernel has not read the pixels of either group slot, and the third batch must wait
    // on the host.
    let third = std::thread::scope(|scope| {
        let third = scope.spawn(|| form.start(&decoder, fill(300)));
        assert!(rig.await_waiters(1), "the third batch does not wait for the first");
        rig.call("fake_cuda_run");
        third.join().expect("delivered")
    });
    for (batch, seed) in [(first, 100), (second, 200), (third, 300)] {
        form.check(&rig, &*form.finish(&decoder, batch), seed, &all());
    }
    assert_eq!(nvjpeg.counts(), (3 * ROWS as c_int, 0));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn files_may_be_anywhere_in_the_slot() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
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
fn a_slot_with_files_is_released_after_they_have_been_read() {
    // The cores read files in the order of their stream.
    for is_kept in [true, false] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        nvjpeg.set_engines(0);
        let decoder = open(&rig, &nvjpeg);
        let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
        decoder.warm(&rig, &form);
        let batch = form.start(&decoder, form.fill(&rig, 40, &[1], &[]));
        if is_kept {
            assert_eq!(rig.pool.free_bytes(), 0);
            let memory = form.finish(&decoder, batch);
            rig.pool.take(BYTES).expect("a slot").bytes_mut().expect("all of it").fill(9);
            form.check(&rig, &*memory, 40, &all());
        } else {
            drop(batch);
            // The waiter is the release thread.
            assert_eq!(rig.call("fake_cuda_await_waiter"), 1);
            assert_eq!(rig.pool.free_bytes(), 0);
            rig.call("fake_cuda_run");
            rig.pool.take(BYTES).expect("a slot").bytes_mut().expect("all of it").fill(9);
            // In the memory of the abandoned batch.
            let memory = form.done(&decoder, form.fill(&rig, 60, &[], &[]), &all());
            form.check(&rig, &*memory, 60, &all());
        }
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn a_batch_ends_after_the_copies_of_its_direct_rows() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    decoder.warm(&rig, &form);
    let (mut slot, pictures) = form.fill(&rig, 40, &[], &[]);
    let numbers = form.outputs[1].offset..form.outputs[1].offset + ROWS * 8;
    let config = ReadPoolConfig { bytes: 1 << 20, populate: false, ..ReadPoolConfig::default() };
    let reads = ReadPool::new(&config, rig.delivery.registrar()).expect("a pool");
    let mut sample = reads.try_lease(numbers.len()).expect("memory").expect("a slot");
    let bytes = slot.bytes_mut().expect("all of it");
    sample.bytes_mut().copy_from_slice(&bytes[numbers.clone()]);
    bytes[numbers.clone()].fill(0);
    let early = rig.delivery.direct_rows().expect("a device").allocate(BYTES, false).expect("memory").expect("unused");
    early.copy(sample, &[(0..numbers.len(), numbers.start)]).expect("started");
    let done: Vec<_> = (0..ROWS).map(|row| (1, row)).collect();
    let decoded = early.finish(ROWS, &done).expect("filled");
    // The release thread waits for that copy and does not advance it.
    assert_eq!(rig.call("fake_cuda_await_waiter"), 1);
    let batch = form.start_with(&decoder, (slot, pictures), Some(decoded));
    form.check(&rig, &*form.finish(&decoder, batch), 40, &all());
    rig.call("fake_cuda_run");
    drop((early, reads));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn an_abandoned_batch_is_not_overwritten_before_the_device_has_finished_it() {
    let (rig, nvjpeg) = (Rig::with_slots(2, "", 0), NvJpeg::new());
    nvjpeg.set_engines(0);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    decoder.warm(&rig, &form);
    let allocated = rig.call("fake_cuda_allocated");
    drop(form.start(&decoder, form.fill(&rig, 40, &[], &[])));
    // On a second stream: its wait for the first batch is all that delays its copy until after the first batch's
    // kernel.
    let (slot, _) = form.fill(&rig, 80, &all(), &[]);
    let second = rig.delivery.deliver(slot.freeze().expect("filled"), BYTES).expect("delivered");
    assert_eq!(rig.call("fake_cuda_allocated"), allocated, "it has new memory");
    form.check(&rig, &*second, 80, &all());
    rig.call("fake_cuda_run");
    form.check(&rig, &*second, 80, &all());
    drop(second);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn work_in_flight_outlives_a_dropped_decoder_whose_drop_returns() {
    let (rig, nvjpeg) = (Rig::with_slots(2, "", 0), NvJpeg::new());
    let mut decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    decoder.warm(&rig, &form);
    // Both group slots have work: the memory of an idle slot would be freed, which waits for the device.
    let batches = [50, 80].map(|seed| form.start(&decoder, form.fill(&rig, seed, &[], &[])));
    // The drop must return.
    drop(decoder.decoder.take());
    assert!(rig.await_waiters(1), "the drop does not wait for the batch in flight");
    assert!(nvjpeg.call("fake_nvjpeg_live") > 0);
    rig.call("fake_cuda_run");
    drop(batches);
    check_leaks(rig, &nvjpeg);
}

#[test]
fn the_drop_of_a_decoder_waits_for_its_end() {
    let (rig, nvjpeg) = (Rig::with_slots(2, "", 0), NvJpeg::new());
    nvjpeg.set_engines(0);
    let mut decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    decoder.warm(&rig, &form);
    let batches = [50, 80].map(|seed| form.start(&decoder, form.fill(&rig, seed, &[], &[])));
    let dropping = decoder.decoder.take();
    let (dropped, is_dropped) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        drop(dropping);
        let _ = dropped.send(());
    });
    assert!(rig.await_waiters(1), "the drop does not wait for the batches in flight");
    // A drop that has not waited has this time to return.
    assert!(is_dropped.recv_timeout(std::time::Duration::from_millis(200)).is_err(), "the drop has returned");
    rig.call("fake_cuda_run");
    thread.join().expect("the drop returns");
    drop(batches);
    check_leaks(rig, &nvjpeg);
}

#[test]
fn rows_are_written_only_after_a_consumer_s_read() {
    let (rig, nvjpeg) = (Rig::with_slots(2, "", 0), NvJpeg::new());
    // A wait of the engines' stream would also delay the second stream.
    nvjpeg.set_engines(0);
    let decoder = open(&rig, &nvjpeg);
    let form = BatchForm::new(DType::UInt8, PixelLayout::Nhwc);
    decoder.warm(&rig, &form);
    let first = form.done(&decoder, form.fill(&rig, 40, &[], &[]), &all());
    first.order_before(None).expect("ordered");
    let later = rig.read_later(&*first);
    drop(first);
    // In the memory of the first batch, with a read that is still queued.
    let second = form.start(&decoder, form.fill(&rig, 80, &[], &[]));
    rig.run_copies();
    rig.call("fake_cuda_run");
    let second = form.finish(&decoder, second);
    let picture = &later[..form.outputs[0].row_bytes];
    let host = form.on_host(&file(40), &stage(40));
    assert!(picture.iter().zip(&host).all(|(a, b)| a.abs_diff(*b) <= 1), "the consumer read a wrong batch");
    form.check(&rig, &*second, 80, &all());
    drop(second);
    end(rig, &nvjpeg, decoder);
}
