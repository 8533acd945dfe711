//! Changes of the ids of a document: fill-in-the-middle and masked language modelling.

use super::fill_in_middle::Rearrangement;
use super::masked_tokens::TokenMasks;
use super::token_row::SampleIds;
use crate::decode::draw::DrawKey;
use crate::error::{Error, Result};

/// Changes of the ids of a document, before they are cut and padded.
#[derive(Debug)]
pub(super) struct TokenChanges {
    rearrangement: Option<Rearrangement>,
    masks: Option<TokenMasks>,
}

impl TokenChanges {
    pub(super) fn new(rearrangement: Option<Rearrangement>, masks: Option<TokenMasks>) -> Result<Self> {
        if rearrangement.is_some() && masks.is_some() {
            return Err(Error::config("`fim` is for models that predict the next token, and `mask` is not: pass one"));
        }
        Ok(Self { rearrangement, masks })
    }

    /// Returns true if documents stay as they are.
    pub(super) fn is_none(&self) -> bool {
        self.rearrangement.is_none() && self.masks.is_none()
    }

    /// Returns true if the first ids of a document may come from its end.
    pub(super) fn moves(&self) -> bool {
        self.rearrangement.is_some()
    }

    /// Returns the ids of a document after its draws, and fills `labels` if there are masks.
    pub(super) fn apply<'m>(
        &self,
        ids: SampleIds<'m>,
        key: DrawKey,
        room: (&'m mut Vec<u32>, &'m mut Vec<u32>),
        labels: &mut Vec<u8>,
    ) -> Result<SampleIds<'m>> {
        match (&self.rearrangement, &self.masks) {
            (Some(rearrangement), _) => rearrangement.apply(ids, key, room),
            (None, Some(masks)) => masks.apply(ids, key, room, labels),
            (None, None) => Ok(ids),
        }
    }
}
