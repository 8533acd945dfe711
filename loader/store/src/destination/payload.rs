//! Bytes to upload.

use super::budget::Reservation;
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use forebay_core::sync::{Arc, OnceLock};
use md5::{Digest as _, Md5};
use std::collections::VecDeque;
use std::fmt;

/// Bytes of one request, in pieces of the caller's memory. Cheap to clone: retries send the same memory again.
#[derive(Clone, Default)]
pub(crate) struct Payload(Arc<PayloadBytes>);

#[derive(Default)]
struct PayloadBytes {
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
        Self(Arc::new(PayloadBytes { pieces, len, reservation, ..PayloadBytes::default() }))
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

/// Bytes from which a piece is sent from its own memory. Smaller ones are joined, because each piece costs a system
/// call.
const SENT_LEAST: usize = 64 << 10;

/// Pieces of an object that wait until a part is full.
#[derive(Default)]
pub(super) struct Rest {
    pieces: VecDeque<Bytes>,
    /// The first piece has lost its start to an earlier part.
    is_first_cut: bool,
    bytes: u64,
}

impl Rest {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.bytes += piece.len() as u64;
            self.pieces.push_back(piece);
        }
    }

    /// Takes all pieces, for an object of a single part.
    pub(super) fn take_all(&mut self) -> Vec<Bytes> {
        self.bytes = 0;
        self.pieces.drain(..).collect()
    }

    /// Takes `bytes` bytes, or all if there are fewer. Pieces that belong to one part are sent as they are. A piece
    /// with bytes of several parts is copied: a slice would keep all of it in memory until the last of its parts is
    /// stored, beyond the bound of the bytes in flight.
    pub(super) fn take(&mut self, bytes: u64) -> Vec<Bytes> {
        let mut missing = usize::try_from(bytes.min(self.bytes)).unwrap_or(usize::MAX);
        self.bytes -= missing as u64;
        let mut taken = Vec::new();
        let mut copied = Vec::new();
        while let Some(piece) = self.pieces.front_mut().filter(|_| missing > 0) {
            let n = missing.min(piece.len());
            missing -= n;
            let is_whole = n == piece.len() && !self.is_first_cut;
            if is_whole && n >= SENT_LEAST {
                if !copied.is_empty() {
                    taken.push(std::mem::take(&mut copied).into());
                }
                taken.extend(self.pieces.pop_front());
                continue;
            }
            copied.extend_from_slice(&piece.split_to(n));
            self.is_first_cut = !piece.is_empty();
            if !self.is_first_cut {
                self.pieces.pop_front();
            }
        }
        if !copied.is_empty() {
            taken.push(copied.into());
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 2 * SENT_LEAST;

    fn piece(value: u8) -> Bytes {
        vec![value; PIECE].into()
    }

    fn rest(pieces: &[&Bytes]) -> Rest {
        let mut rest = Rest::default();
        pieces.iter().for_each(|piece| rest.push((*piece).clone()));
        rest
    }

    #[test]
    fn whole_pieces_of_a_part_are_sent_from_their_own_memory() {
        let (a, b, c) = (piece(1), piece(2), piece(3));
        let mut rest = rest(&[&a, &b, &c]);
        let part = rest.take(2 * PIECE as u64);
        assert_eq!(part.iter().map(|piece| piece.as_ptr()).collect::<Vec<_>>(), [a.as_ptr(), b.as_ptr()]);
        assert_eq!(rest.bytes(), PIECE as u64);
        assert_eq!(rest.take(u64::MAX)[0].as_ptr(), c.as_ptr());
        assert_eq!(rest.bytes(), 0);
    }

    #[test]
    fn a_part_keeps_no_piece_alive_that_has_bytes_of_further_parts() {
        let (a, b) = (piece(1), piece(2));
        let mut rest = rest(&[&a, &b]);
        let parts: Vec<Vec<Bytes>> = (0..4).map(|_| rest.take(PIECE as u64 / 3 * 2)).collect();
        let all: Vec<u8> = parts.iter().flatten().flat_map(|piece| piece.to_vec()).collect();
        assert_eq!(all, [vec![1; PIECE], vec![2; PIECE]].concat());
        assert_eq!(rest.bytes(), 0);
        // Only these and no part have the pieces.
        assert!(a.is_unique() && b.is_unique());
    }

    #[test]
    fn small_pieces_are_joined() {
        let (large, small) = (piece(1), Bytes::from_static(&[7; 10]));
        let mut rest = rest(&[&small, &small, &large, &small]);
        let part = rest.take(u64::MAX);
        assert_eq!(part.iter().map(Bytes::len).collect::<Vec<_>>(), [20, PIECE, 10]);
        assert_eq!(part[1].as_ptr(), large.as_ptr());
    }
}
