//! Submission of a batch: its pictures group by group, then its remaining rows.

use super::balance::GroupTimes;
use super::group_slot::TimedDecoder;
use super::groups::{Group, GroupItem, LARGE_BYTES, PIXEL_BYTES_MAX};
use super::in_flight::DecodeTally;
use super::resources::DecodeResources;
use super::state::{Backend, DecodeState, EngineState};
use super::undecoded::UndecodedFlags;
use crate::context::Stream;
use crate::kernel::{BLANK, Batch, Picture};
use crate::memory::Block;
use crate::nvjpeg::{DecodeJob, Extent, NvJpegError};
use crate::row_copy::{CompletedRows, copy_rows};
use forebay_loader::delivery::OutputLayout;
use forebay_loader::memory::BatchSlot;
use forebay_loader::{Error, ErrorKind, Result};

/// Bytes of pageable memory that drivers copy to a staging buffer at once; for more they wait for the stream.
const COPY_MAX: usize = 64 << 10;

/// Scratch memory for a group, and the times of the slot's last group.
struct GroupScratch {
    address: u64,
    times: GroupTimes,
}

/// Pictures that a backend did not decode.
#[derive(Default)]
struct Rejections {
    /// Numbers of the pictures.
    numbers: Vec<usize>,
    /// Pictures among them that only found no memory.
    without_memory: usize,
    /// Error of the last one of the remaining pictures.
    reason: Option<NvJpegError>,
}

/// Picture requested from a backend.
struct DecodeRequest<'a> {
    number: usize,
    /// True if the whole picture is large, even if only a region is decoded: the backend may need memory for all of it.
    is_large: bool,
    job: DecodeJob<'a>,
}

impl Rejections {
    /// Rejects all requests, for a backend without a decoder.
    fn all(requests: &[DecodeRequest<'_>]) -> Self {
        Self { numbers: requests.iter().map(|request| request.number).collect(), ..Self::default() }
    }
}

/// Returns the job for a picture with its file in `filled`, with its pixels in scratch memory at `scratch`.
fn job<'a>(item: &GroupItem, extent: Extent, filled: &'a [u8], scratch: u64) -> DecodeJob<'a> {
    let file = &filled[item.picture.at..][..item.picture.picture.bytes];
    DecodeJob { file, region: item.region(extent), out: scratch + item.at as u64, pitch: item.pitch(extent) }
}

/// Chooses the backend for each picture of a group, after taking in the `times` of an earlier group.
fn assign(state: &mut DecodeState, group: &Group, filled: &[u8], times: GroupTimes) -> Vec<Backend> {
    let has_cores = state.has_cores();
    let Some(EngineState { extent, probe, share, .. }) = &mut state.engines else {
        return vec![Backend::Cores; group.items.len()];
    };
    share.learn(times);
    let mut remaining = if has_cores { share.engine_pictures(group.items.len()) } else { group.items.len() };
    let backend = |item: &GroupItem| {
        let job = job(item, *extent, filled, 0);
        let by_engines = remaining > 0 && probe.accepts(job.file, job.region);
        remaining -= usize::from(by_engines);
        if by_engines { Backend::Engines } else { Backend::Cores }
    };
    group.items.iter().map(backend).collect()
}

/// Batch while its work is queued.
pub(super) struct BatchSubmission<'a> {
    pub(super) resources: &'a DecodeResources,
    pub(super) state: &'a mut DecodeState,
    pub(super) slot: BatchSlot,
    pub(super) block: Block,
    pub(super) flags: UndecodedFlags,
    pub(super) outputs: &'a [OutputLayout],
    pub(super) tally: DecodeTally,
    /// Rows that are on the device, or will be in the order of the streams.
    pub(super) done: CompletedRows,
}

impl BatchSubmission<'_> {
    /// Queues the decoding of all groups and returns the numbers of the rejected pictures. Rows that are not pictures
    /// are copied only if none was rejected: the batch may have fewer of them when it is delivered.
    pub(super) fn run(&mut self, groups: Vec<Group>, rows: &[usize]) -> Result<Vec<usize>> {
        let mut rejected = Vec::new();
        let mut remaining = groups;
        remaining.reverse();
        while let Some(group) = remaining.pop() {
            match self.scratch(&group)? {
                Some(scratch) => self.submit_group(&group, scratch, &mut rejected)?,
                None => match group.items[..] {
                    [GroupItem { number, .. }] => {
                        self.tally.without_memory += 1;
                        rejected.push(number);
                    }
                    _ => remaining.extend(group.split(self.state.extent_max()).into_iter().rev()),
                },
            }
        }
        if rejected.is_empty() {
            self.copy_rows(rows)?;
        }
        Ok(rejected)
    }

    /// Returns scratch memory of the next group slot. `None` if the device has too little and the group can be split or
    /// is a single large picture.
    fn scratch(&mut self, group: &Group) -> Result<Option<GroupScratch>> {
        let Self { resources, state, .. } = self;
        let next = (state.current + 1) % state.slots.len();
        let group_slot = &mut state.slots[next];
        let times = group_slot.wait_idle()?;
        match group_slot.scratch(group.scratch_bytes(), &resources.stream) {
            Ok(address) => {
                state.current = next;
                Ok(Some(GroupScratch { address, times }))
            }
            Err(error) if error.kind() != ErrorKind::Full => Err(error),
            Err(error) => match group.items.len() {
                1 if group.pixel_bytes < LARGE_BYTES => Err(error),
                1 => {
                    resources.fallbacks.report_large_picture(&error);
                    Ok(None)
                }
                // The memory may suffice for the remaining pictures.
                _ if group.has_large(state.extent_max()) => Ok(None),
                _ => {
                    if state.pixel_bytes_max == PIXEL_BYTES_MAX {
                        resources.fallbacks.report_little_memory(&error);
                    }
                    // A small batch that found little memory for a moment must not lower the limit too far.
                    let bytes_max = group.pixel_bytes.div_ceil(2).max(LARGE_BYTES);
                    state.pixel_bytes_max = state.pixel_bytes_max.min(bytes_max);
                    Ok(None)
                }
            },
        }
    }

    /// Queues the decoding of a group and the kernel that writes its rows.
    fn submit_group(&mut self, group: &Group, scratch: GroupScratch, rejected: &mut Vec<usize>) -> Result<()> {
        let Self { resources, state, slot, block, flags, outputs, tally, done } = self;
        let GroupScratch { address: scratch, times } = scratch;
        let filled: &[u8] = slot.bytes_mut().ok_or_else(unfilled)?;
        let backends = assign(state, group, filled, times);
        let extent = state.extents();
        let group_slot = &mut state.slots[state.current];
        group_slot.begin();
        let stream = resources.stream.handle;
        let requests = |backend: Backend| -> Vec<DecodeRequest<'_>> {
            let items = group.items.iter().zip(&backends).filter(|(_, of_item)| **of_item == backend);
            let request = |item: &GroupItem| DecodeRequest {
                number: item.number,
                is_large: item.is_large(Extent::Whole),
                job: job(item, extent(backend), filled, scratch),
            };
            items.map(|(item, _)| request(item)).collect()
        };
        let (on_engines, on_cores) = (requests(Backend::Engines), requests(Backend::Cores));
        // The cores first, because the call for the engines returns only when most of its pictures are decoded.
        let by_cores = match &mut group_slot.cores {
            Some(decoder) => decode(resources, decoder, &on_cores, &resources.stream)?,
            None => Rejections::all(&on_cores),
        };
        let by_engines = match &mut group_slot.engines {
            Some(decoder) => decode(resources, decoder, &on_engines, &resources.engines_stream)?,
            None => Rejections::all(&on_engines),
        };
        if let Some(engines) = &group_slot.engines {
            engines.done.delay(stream)?;
        }
        let is_accepted =
            |item: &GroupItem| ![&by_cores, &by_engines].iter().any(|set| set.numbers.contains(&item.number));
        let all = group.items.iter().copied().zip(backends.iter().copied());
        let accepted: Vec<(GroupItem, Backend)> = all.filter(|(item, _)| is_accepted(item)).collect();
        rejected.extend(by_cores.numbers.iter().chain(&by_engines.numbers));
        done.extend(accepted.iter().map(|(item, backend)| (item.key(), backend.source())));
        let for_kernel = |(item, backend): &(GroupItem, Backend)| {
            item.for_kernel(scratch, extent(*backend), flags.address(item.number)?)
        };
        group_slot.list = accepted.iter().map(for_kernel).collect::<Result<_>>()?;
        let outputs_of: Vec<usize> = accepted.iter().map(|(item, _)| item.picture.output).collect();
        let list_at = scratch + group.pixel_bytes as u64;
        write_rows(resources, &group_slot.list, &outputs_of, list_at, block, outputs)?;
        // SAFETY: the memory is the slot's; the stream has also waited for the engines.
        unsafe { resources.stream.fill(scratch, BLANK, group.scratch_bytes()) }?;
        group_slot.end(stream)?;
        tally.requested += on_engines.len() - by_engines.without_memory;
        tally.rejected += by_engines.numbers.len() - by_engines.without_memory;
        tally.without_memory += by_engines.without_memory + by_cores.without_memory;
        tally.reason = by_engines.reason.or(tally.reason);
        Ok(())
    }

    /// Queues the copies of all rows that are not on the device yet.
    fn copy_rows(&mut self, rows: &[usize]) -> Result<()> {
        let Self { resources, slot, block, outputs, done, .. } = self;
        let filled: &[u8] = slot.bytes_mut().ok_or_else(unfilled)?;
        // SAFETY: the slot is held and not written until the batch's event has fired or both streams have been waited
        // for.
        unsafe { copy_rows(&resources.stream, filled, block, outputs, rows, done) }
    }
}

/// Error for a batch with rows that are still being written.
fn unfilled() -> Error {
    Error::internal("a batch was submitted before its rows were filled")
}

/// Starts decoding the `requests` on `stream`. nvJPEG fails for a whole list if one picture is bad, so a failed list is
/// halved until the picture is alone. Returns the rejected pictures.
fn decode(
    resources: &DecodeResources,
    timed: &mut TimedDecoder,
    requests: &[DecodeRequest<'_>],
    stream: &Stream,
) -> Result<Rejections> {
    timed.begin(stream.handle)?;
    let mut rejections = Rejections::default();
    let (mut remaining, mut is_halved) = (vec![requests], false);
    while let Some(part) = remaining.pop().filter(|part| !part.is_empty()) {
        if is_halved {
            // The decoder still works on the second half, or on pictures of a list that it then rejected.
            resources.wait_for_streams()?;
            clear(resources, part)?;
        }
        let jobs: Vec<DecodeJob<'_>> = part.iter().map(|request| request.job).collect();
        // SAFETY: the decoder is idle, since its group slot was or its work has been waited for; the batch slot is held
        // and not written until an event reports that it has been read; the pixels' memory is the group slot's and do
        // not overlap.
        let result = unsafe { timed.decoder.decode(&jobs, stream.handle) }?;
        let Err(failure) = result else { continue };
        if failure.is_out_of_memory() {
            let error = Error::from(failure).with("device", resources.device.context.number);
            if !part.iter().any(|request| request.is_large) {
                return Err(error);
            }
            resources.fallbacks.report_large_picture(&error);
        }
        is_halved = true;
        match part {
            [DecodeRequest { number, .. }] => {
                rejections.numbers.push(*number);
                if failure.is_out_of_memory() {
                    rejections.without_memory += 1;
                } else {
                    rejections.reason = Some(failure);
                }
            }
            _ => {
                let (front, back) = part.split_at(part.len() / 2);
                remaining.extend([back, front]);
            }
        }
    }
    // The time of halves is no measure of a picture's time.
    timed.end(stream.handle, if is_halved { 0 } else { requests.len() })?;
    Ok(rejections)
}

/// Fills the memory of the requests' pixels with [`BLANK`] again and waits for it. The device must not use them.
fn clear(resources: &DecodeResources, requests: &[DecodeRequest<'_>]) -> Result<()> {
    for DecodeRequest { job, .. } in requests {
        // SAFETY: the memory is aligned to words, and ends before the next one starts.
        unsafe { resources.stream.fill(job.out, BLANK, job.pitch * job.region.h as usize) }?;
    }
    resources.stream.wait()
}

/// Queues the kernels that write the rows of the pictures in `list`, which are being decoded, and that look for
/// undecoded ones. `outputs_of` has their outputs, ascending. The device's copy of the list goes to `list_at`. The list
/// is the group slot's.
fn write_rows(
    resources: &DecodeResources,
    list: &[Picture],
    outputs_of: &[usize],
    list_at: u64,
    block: &Block,
    outputs: &[OutputLayout],
) -> Result<()> {
    let DecodeResources { stream, kernels, .. } = resources;
    if list.is_empty() {
        return Ok(());
    }
    for (number, piece) in Picture::bytes_of(list).chunks(COPY_MAX).enumerate() {
        // SAFETY: the list and its memory are the group slot's, which changes neither before it is idle.
        unsafe { stream.copy_in(list_at + (number * COPY_MAX) as u64, piece) }?;
    }
    let mut before = 0;
    for of_output in outputs_of.chunk_by(|a, b| a == b) {
        let layout = &outputs[of_output[0]];
        let form = layout.form.ok_or_else(|| Error::internal("an output without pictures has a file"))?;
        let batch = Batch::new(
            block.address + layout.offset as u64,
            form.size,
            form.dtype,
            form.layout,
            form.scale,
            form.offset,
        )?;
        let at = list_at + (before * size_of::<Picture>()) as u64;
        // SAFETY: the list has this many pictures, with their pixels in scratch memory that nothing else uses before
        // the slot's event has fired; their rows are in the block, which is this batch's.
        unsafe { kernels.crop_resize(at, of_output.len(), &batch, stream) }?;
        before += of_output.len();
    }
    // SAFETY: as above; the bytes that the kernel writes are the batch's.
    unsafe { kernels.find_undecoded(list_at, list.len(), stream) }
}
