//! Bytes to upload.

use super::budget::Reservation;
use crate::sync::{Arc, OnceLock};
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use md5::{Digest as _, Md5};
use std::fmt;

/// Bytes of one request, in pieces of the caller's memory. Cheap to clone: retries send the same memory again.
#[derive(Clone, Default)]
pub(crate) struct Payload(Arc<Inner>);

#[derive(Default)]
struct Inner {
    pieces: Vec<Bytes>,
    len: u64,
    sha256: OnceLock<[u8; SHA256_OUTPUT_LEN]>,
    md5: OnceLock<String>,
    /// Part of the budget, held until the store has confirmed the bytes.
    reservation: Option<Reservation>,
}

impl Payload {
    pub(crate) fn new(pieces: Vec<Bytes>) -> Self {
        Self::reserved(pieces, None)
    }

    pub(super) fn reserved(pieces: Vec<Bytes>, reservation: Option<Reservation>) -> Self {
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self(Arc::new(Inner { pieces, len, reservation, ..Inner::default() }))
    }

    pub(crate) fn pieces(&self) -> &[Bytes] {
        &self.0.pieces
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Returns the SHA-256 of the bytes, computed once.
    pub(crate) fn sha256(&self) -> &[u8; SHA256_OUTPUT_LEN] {
        self.0.sha256.get_or_init(|| {
            let mut context = aws_lc_rs::digest::Context::new(&SHA256);
            self.pieces().iter().for_each(|piece| context.update(piece));
            let mut digest = [0; SHA256_OUTPUT_LEN];
            digest.copy_from_slice(context.finish().as_ref());
            digest
        })
    }

    /// Returns the MD5 of the bytes in base 64, as in `Content-MD5`, computed once.
    pub(crate) fn md5(&self) -> &str {
        self.0.md5.get_or_init(|| {
            let mut hasher = Md5::new();
            self.pieces().iter().for_each(|piece| hasher.update(piece));
            BASE64_STANDARD.encode(hasher.finalize())
        })
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(vec![bytes.into()])
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload").field("len", &self.0.len).field("is_reserved", &self.0.reservation.is_some()).finish()
    }
}

/// Takes `bytes` bytes from the front of `pieces`, which have at least as many.
pub(super) fn take(pieces: &mut std::collections::VecDeque<Bytes>, mut bytes: u64) -> Vec<Bytes> {
    let mut taken = Vec::new();
    while bytes > 0
        && let Some(piece) = pieces.front_mut()
    {
        let n = usize::try_from(bytes).unwrap_or(usize::MAX).min(piece.len());
        taken.push(piece.split_to(n));
        bytes -= n as u64;
        if piece.is_empty() {
            pieces.pop_front();
        }
    }
    taken
}
