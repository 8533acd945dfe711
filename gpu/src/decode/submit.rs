//! A batch's way to the device: its pictures group by group, then the rows that are no pictures.

use super::balance::Took;
use super::group_slot::Timed;
use super::groups::{Group, Item, LARGE_BYTES, PIXEL_BYTES_MAX};
use super::in_flight::Tally;
use super::undecoded::LeftOut;
use super::{By, DevicePictures, Engines, Work};
use crate::context::Stream;
use crate::kernel::{BLANK, Batch, Picture};
use crate::memory::Block;
use crate::nvjpeg::{Extent, Job, Refusal};
use crate::partial_batch::Done;
use crate::row_copy::copy_rows;
use forebay_loader::delivery::OutputLayout;
use forebay_loader::memory::BatchSlot;
use forebay_loader::{Error, ErrorKind, Result};

/// Bytes of ordinary memory that drivers copy aside at once, rather than wait for the stream.
const COPY_MAX: usize = 64 << 10;

/// A lane's memory for a group, and what its last group took.
struct Scratch {
    address: u64,
    took: Took,
}

/// Pictures that a backend does not decode.
#[derive(Default)]
struct Refused {
    /// Their numbers.
    numbers: Vec<usize>,
    /// How many of them for want of memory, which says nothing of others.
    without_memory: usize,
    /// What the library said to the last of the rest.
    reason: Option<Refusal>,
}

/// A picture that a decoder is asked for.
struct Asked<'a> {
    number: usize,
    /// By the whole picture, for which a decoder of parts may have memory as well.
    is_large: bool,
    job: Job<'a>,
}

impl Refused {
    /// What nobody is there to decode.
    fn all(asked: &[Asked<'_>]) -> Self {
        Self { numbers: asked.iter().map(|asked| asked.number).collect(), ..Self::default() }
    }
}

/// What a decoder is told of a picture whose file lies in `filled`, for scratch memory at `scratch`.
fn job<'a>(item: &Item, extent: Extent, filled: &'a [u8], scratch: u64) -> Job<'a> {
    let file = &filled[item.picture.at..][..item.picture.picture.bytes];
    Job { file, region: item.region(extent), out: scratch + item.at as u64, pitch: item.pitch(extent) }
}

impl Work {
    /// Who decodes which picture of a group, by what the last ones `took`.
    fn share_out(&mut self, group: &Group, filled: &[u8], took: Took) -> Vec<By> {
        let has_cores = self.has_cores();
        let Some(Engines { extent, probe, share, .. }) = &mut self.engines else {
            return vec![By::Cores; group.items.len()];
        };
        share.learn(took);
        let mut left = if has_cores { share.of(group.items.len()) } else { group.items.len() };
        let who = |item: &Item| {
            let job = job(item, *extent, filled, 0);
            let by_engines = left > 0 && probe.takes(job.file, job.region);
            left -= usize::from(by_engines);
            if by_engines { By::Engines } else { By::Cores }
        };
        group.items.iter().map(who).collect()
    }
}

/// One batch on its way.
pub(super) struct Passage<'a> {
    pub(super) pictures: &'a DevicePictures,
    pub(super) work: &'a mut Work,
    pub(super) slot: BatchSlot,
    pub(super) block: Block,
    pub(super) left_out: LeftOut,
    pub(super) outputs: &'a [OutputLayout],
    pub(super) tally: Tally,
    /// Rows that are there, or will be in the streams' order.
    pub(super) done: Done,
}

impl Passage<'_> {
    /// Gives the device all of the batch's work; says which pictures are refused. Then rows that are no pictures wait for
    /// the batch to come again: it may have fewer of them.
    pub(super) fn run(&mut self, groups: Vec<Group>, rows: &[usize]) -> Result<Vec<usize>> {
        let mut refused = Vec::new();
        let mut left = groups;
        left.reverse();
        while let Some(group) = left.pop() {
            match self.scratch(&group)? {
                Some(scratch) => self.group(&group, scratch, &mut refused)?,
                None => match group.items[..] {
                    [Item { number, .. }] => {
                        self.tally.without_memory += 1;
                        refused.push(number);
                    }
                    _ => left.extend(group.parts(self.work.extent_max()).into_iter().rev()),
                },
            }
        }
        if refused.is_empty() {
            self.copy_rows(rows)?;
        }
        refused.sort_unstable();
        Ok(refused)
    }

    /// Memory for a group, of the lane whose turn it is next; `None` where there is less, and the group can be parted, or is a large
    /// picture.
    fn scratch(&mut self, group: &Group) -> Result<Option<Scratch>> {
        let Self { pictures, work, .. } = self;
        let turn = (work.turn + 1) % work.lanes.len();
        let lane = &mut work.lanes[turn];
        let took = lane.rest()?;
        match lane.scratch(group.scratch_bytes(), &pictures.stream) {
            Ok(address) => {
                work.turn = turn;
                Ok(Some(Scratch { address, took }))
            }
            Err(error) if error.kind() != ErrorKind::Full => Err(error),
            Err(error) => match group.items.len() {
                1 if group.pixel_bytes < LARGE_BYTES => Err(error),
                1 => {
                    pictures.say_of_large_pictures(&error);
                    Ok(None)
                }
                // What there is suffices for others.
                _ if group.has_large(work.extent_max()) => Ok(None),
                _ => {
                    if work.pixel_bytes_max == PIXEL_BYTES_MAX {
                        pictures.say_of_little_memory(&error);
                    }
                    // There is more, as a rule, than a small batch found at its moment.
                    let bytes_max = group.pixel_bytes.div_ceil(2).max(LARGE_BYTES);
                    work.pixel_bytes_max = work.pixel_bytes_max.min(bytes_max);
                    Ok(None)
                }
            },
        }
    }

    /// Decodes a group and has the kernel write its rows.
    fn group(&mut self, group: &Group, scratch: Scratch, refused: &mut Vec<usize>) -> Result<()> {
        let Self { pictures, work, slot, block, left_out, outputs, tally, done } = self;
        let Scratch { address: scratch, took } = scratch;
        let filled: &[u8] =
            slot.bytes_mut().ok_or_else(|| Error::internal("a batch was placed before its rows were done"))?;
        let shared_out = work.share_out(group, filled, took);
        let extent = work.extents();
        let lane = &mut work.lanes[work.turn];
        lane.begin();
        let stream = pictures.stream.handle;
        let asked = |by: By| -> Vec<Asked<'_>> {
            let items = group.items.iter().zip(&shared_out).filter(|(_, is_by)| **is_by == by);
            let asked = |item: &Item| Asked {
                number: item.number,
                is_large: item.is_large(Extent::Whole),
                job: job(item, extent(by), filled, scratch),
            };
            items.map(|(item, _)| asked(item)).collect()
        };
        let (on_engines, on_cores) = (asked(By::Engines), asked(By::Cores));
        // First the cores: the engines' call comes back when most of its pictures are decoded.
        let by_cores = match &mut lane.cores {
            Some(decoder) => pictures.decode(decoder, &on_cores, &pictures.stream)?,
            None => Refused::all(&on_cores),
        };
        let by_engines = match &mut lane.engines {
            Some(decoder) => pictures.decode(decoder, &on_engines, &pictures.engines_stream)?,
            None => Refused::all(&on_engines),
        };
        if let Some(engines) = &lane.engines {
            engines.done.hold_back(stream)?;
        }
        let is_taken =
            |item: &Item| ![&by_cores, &by_engines].iter().any(|refused| refused.numbers.contains(&item.number));
        let all = group.items.iter().copied().zip(shared_out.iter().copied());
        let taken: Vec<(Item, By)> = all.filter(|(item, _)| is_taken(item)).collect();
        refused.extend(by_cores.numbers.iter().chain(&by_engines.numbers));
        done.extend(taken.iter().map(|(item, by)| (item.key(), *by == By::Engines)));
        let for_kernel = |(item, by): &(Item, By)| item.for_kernel(scratch, extent(*by), left_out.at(item.number)?);
        lane.list = taken.iter().map(for_kernel).collect::<Result<_>>()?;
        let outputs_of: Vec<usize> = taken.iter().map(|(item, _)| item.picture.output).collect();
        pictures.write_rows(&lane.list, &outputs_of, scratch + group.pixel_bytes as u64, block, outputs)?;
        // SAFETY: the memory is the lane's; engines' work, too, has been waited for on the stream.
        unsafe { pictures.stream.fill(scratch, BLANK, group.scratch_bytes()) }?;
        lane.end(stream)?;
        tally.asked += on_engines.len() - by_engines.without_memory;
        tally.refused += by_engines.numbers.len() - by_engines.without_memory;
        tally.without_memory += by_engines.without_memory + by_cores.without_memory;
        tally.reason = by_engines.reason.or(tally.reason);
        Ok(())
    }

    /// Copies what is not there yet.
    fn copy_rows(&mut self, rows: &[usize]) -> Result<()> {
        let Self { pictures: device, slot, block, outputs, done, .. } = self;
        let filled: &[u8] =
            slot.bytes_mut().ok_or_else(|| Error::internal("a batch was placed before its rows were done"))?;
        // SAFETY: the slot is held and not written until the batch's event has fired or both streams have been waited for.
        unsafe { copy_rows(&device.stream, filled, block, outputs, rows, done) }
    }
}

impl DevicePictures {
    /// Starts decoding what is `asked` for; says which are refused, and what the library last said.
    fn decode(&self, timed: &mut Timed, asked: &[Asked<'_>], stream: &Stream) -> Result<Refused> {
        timed.begin(stream.handle)?;
        let mut refused = Refused::default();
        // Halves that are still to be decoded.
        let (mut left, mut is_halved) = (vec![asked], false);
        while let Some(part) = left.pop().filter(|part| !part.is_empty()) {
            if is_halved {
                // The decoder works on another half, or on what it began of a batch that it then refused.
                self.settle()?;
                self.blank(part)?;
            }
            let jobs: Vec<Job<'_>> = part.iter().map(|asked| asked.job).collect();
            // SAFETY: the decoder's lane is at rest, or what it was given has been waited for; the slot is held and not
            // written until an event says that it has been read; the places are the lane's, and a part of them each.
            let answer = unsafe { timed.decoder.decode(&jobs, stream.handle) }?;
            let Err(refusal) = answer else { continue };
            if refusal.is_of_memory() {
                let error = Error::from(refusal).with("device", self.shared.context.number);
                if !part.iter().any(|asked| asked.is_large) {
                    return Err(error);
                }
                self.say_of_large_pictures(&error);
            }
            is_halved = true;
            match part {
                [Asked { number, .. }] => {
                    refused.numbers.push(*number);
                    if refusal.is_of_memory() {
                        refused.without_memory += 1;
                    } else {
                        refused.reason = Some(refusal);
                    }
                }
                _ => {
                    let (front, back) = part.split_at(part.len() / 2);
                    left.extend([back, front]);
                }
            }
        }
        // Halves say nothing of what pictures take.
        timed.end(stream.handle, if is_halved { 0 } else { asked.len() })?;
        Ok(refused)
    }

    /// Makes the places of `asked` blank again, which nothing uses, and waits until they are.
    fn blank(&self, asked: &[Asked<'_>]) -> Result<()> {
        for Asked { job, .. } in asked {
            // SAFETY: places start words, and end before the next one's first.
            unsafe { self.stream.fill(job.out, BLANK, job.pitch * job.region.h as usize) }?;
        }
        self.stream.wait()
    }

    /// Has the kernel write the rows of the pictures of `list`, which are being decoded and whose outputs `outputs_of` names,
    /// ascending; the device's copy of the list goes to `list_at`. The list is the lane's.
    fn write_rows(
        &self,
        list: &[Picture],
        outputs_of: &[usize],
        list_at: u64,
        block: &Block,
        outputs: &[OutputLayout],
    ) -> Result<()> {
        if list.is_empty() {
            return Ok(());
        }
        for (number, piece) in Picture::bytes_of(list).chunks(COPY_MAX).enumerate() {
            // SAFETY: both the list and the place are the lane's, which changes neither before it is at rest.
            unsafe { self.stream.copy_in(list_at + (number * COPY_MAX) as u64, piece) }?;
        }
        let mut before = 0;
        for of_output in outputs_of.chunk_by(|a, b| a == b) {
            let place = &outputs[of_output[0]];
            let form = place.form.ok_or_else(|| Error::internal("a file in an output without pictures"))?;
            let batch = Batch::new(
                block.address + place.offset as u64,
                form.size,
                form.dtype,
                form.layout,
                form.scale,
                form.offset,
            )?;
            let at = list_at + (before * size_of::<Picture>()) as u64;
            // SAFETY: the list holds so many pictures whose pixels are scratch memory's, which nothing else touches before
            // the lane's event has fired; their rows lie in the block, which is this batch's.
            unsafe { self.kernel.launch(at, of_output.len(), &batch, &self.stream) }?;
            before += of_output.len();
        }
        // SAFETY: as above; the bytes that it writes are the batch's.
        unsafe { self.kernel.find_left_out(list_at, list.len(), &self.stream) }
    }
}
