//! JPEG decoding on the device: from the files in a batch slot to the rows of the batch.
//!
//! ```text
//! batch slot --groups--> files --balance--> nvJPEG on engines --+--> scratch --kernel--> rows of the batch
//!      |                            \-----> nvJPEG on cores  --/   (group slot)                 |
//!      +--finished rows, more outputs: copies---------------------------------------------------+--> event
//! ```
//!
//! * [`selftest`] compares each nvJPEG backend with the host's decoder when it is opened. A backend with different
//!   pixels is not used. Only the engines can decode a batch of regions; the cores decode whole pictures. Engines that
//!   fail at regions, or at blending chroma, are used without that feature.
//! * [`open`] makes a decoder of the backends that passed.
//! * [`decoder`] implements `PictureDecoder`. All batches pass its `submit` and `wait`, on one thread of the loader.
//! * [`submit`] queues the work of a batch. Its pictures are decoded in [`groups`] that fit into scratch memory,
//!   usually one group per batch, by engines and cores at the same time; [`balance`] splits them. The engines' call
//!   returns when most of its pictures are decoded, so the cores' work is submitted first. A [`group_slot`] owns the
//!   scratch memory and the nvJPEG decoders of a group.
//! * [`in_flight`] holds the memory that the device uses until it has finished the batch.
//! * [`undecoded`] finds pictures that nvJPEG has reported as decoded and never wrote.
//! * [`state`], [`resources`] and [`fallbacks`] are the parts of the decoder that all files need.
//!
//! A picture is rejected if nvJPEG returns an error for it, which shows when the batch is submitted, or if it is
//! undecoded, which shows when the device has finished. The host decodes both kinds in the batch slot, while the
//! remaining pictures remain in device memory ([`PartialDeviceBatch`](crate::partial_batch::PartialDeviceBatch)) until
//! the batch is delivered.
//!
//! Not tested on hardware: the tests use a fake driver and fake libraries in host memory.

mod balance;
mod decoder;
mod fallbacks;
mod group_slot;
mod groups;
mod in_flight;
mod open;
mod resources;
mod selftest;
mod state;
mod submit;
mod undecoded;

pub(crate) use decoder::CudaPictureDecoder;
pub(crate) use selftest::Backends;
