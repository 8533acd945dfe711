//! Mutable state of a decoder, which one batch at a time uses.

use super::balance::EngineShare;
use super::group_slot::GroupSlot;
use crate::nvjpeg::{Extent, Handle, HeaderProbe};
use crate::row_copy::RowSource;
use forebay_loader::sync::Arc;
use forebay_loader::{Error, ErrorKind, Result};

/// Consecutive rejected pictures after which a backend is abandoned: asking it costs more than decoding on the host.
pub(super) const REJECTED_RUN_MAX: usize = 16;

/// Part of the device that decodes a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    /// Hardware units that only decode JPEG.
    Engines,
    /// The device's ordinary cores. They decode whole pictures, because nvJPEG has no batches of regions for them.
    Cores,
}

impl Backend {
    /// Returns the source of the rows that it decodes.
    pub(super) fn source(self) -> RowSource {
        match self {
            Self::Engines => RowSource::Engines,
            Self::Cores => RowSource::Cores,
        }
    }
}

/// Group slots and engines.
pub(super) struct DecodeState {
    /// Empty after decoding was abandoned.
    pub(super) slots: Vec<GroupSlot>,
    /// Index of the slot of the latest group.
    pub(super) current: usize,
    pub(super) engines: Option<EngineState>,
    /// Limit of the decoded pixels of one group. Lowered when the device has too little memory.
    pub(super) pixel_bytes_max: usize,
    /// Pictures of consecutive batches that were rejected entirely while there were no engines.
    pub(super) rejected: usize,
}

impl DecodeState {
    /// Returns true if the device has a backend left.
    pub(super) fn has_backend(&self) -> bool {
        self.engines.is_some() || self.has_cores()
    }

    /// Returns true if the cores decode.
    pub(super) fn has_cores(&self) -> bool {
        self.slots.iter().any(|slot| slot.cores.is_some())
    }

    /// Returns the function from a backend to the extent of a picture that it decodes.
    pub(super) fn extents(&self) -> impl Fn(Backend) -> Extent + use<> {
        let of_engines = self.engines.as_ref().map_or(Extent::Whole, |engines| engines.extent);
        move |backend| if backend == Backend::Engines { of_engines } else { Extent::Whole }
    }

    /// Returns the largest extent that any backend decodes.
    pub(super) fn extent_max(&self) -> Extent {
        if self.has_cores() { Extent::Whole } else { self.extents()(Backend::Engines) }
    }
}

/// State of the JPEG engines.
pub(super) struct EngineState {
    pub(super) count: u32,
    pub(super) extent: Extent,
    pub(super) probe: HeaderProbe,
    pub(super) share: EngineShare,
    /// Pictures rejected since the last decoded one.
    rejected: usize,
}

impl EngineState {
    /// Asks the library for the number of engines.
    ///
    /// # Errors
    ///
    /// `Unsupported` when there are none; errors of the library.
    pub(super) fn new(handle: &Arc<Handle>) -> Result<Self> {
        let (count, cores) = handle.engines()?;
        if count == 0 {
            return Err(Error::new(ErrorKind::Unsupported, "the device has none"));
        }
        let share = EngineShare::new((count * cores.max(1)) as usize);
        Ok(Self { count, extent: handle.extent(), probe: HeaderProbe::new(handle)?, share, rejected: 0 })
    }

    /// Counts the `rejected` ones of the `requested` pictures of a batch. Returns true if the engines have rejected
    /// [`REJECTED_RUN_MAX`] pictures in a row.
    pub(super) fn count_rejected(&mut self, requested: usize, rejected: usize) -> bool {
        self.rejected = if rejected < requested { 0 } else { self.rejected + rejected };
        self.rejected >= REJECTED_RUN_MAX
    }
}
