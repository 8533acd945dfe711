//! Faults by seed.

use crate::data::Draws;
use std::fmt;

/// Fault of one response. Positions in a body are in thousandths of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The response is late.
    Delay,
    /// The body arrives in many small pieces.
    Throttle,
    /// Nothing more arrives after this position.
    Stall(u16),
    /// The connection is reset after this position.
    Reset(u16),
    /// The connection is reset before the response.
    NoResponse,
    /// The connection is closed after this position.
    Cut(u16),
    /// This status instead of the object.
    Status(u16, Pause),
    /// `Content-Range` names bytes that were not requested.
    WrongRange,
    /// The object has a different entity tag and different bytes.
    Changed,
    /// One bit of the body at this position is flipped.
    Flip(u16),
    /// Success without any bytes.
    Empty,
    /// The body arrives in chunks, without its length.
    Chunked,
    /// The body arrives in chunks and ends properly at this position.
    ChunkedShort(u16),
}

/// `Retry-After` of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// None.
    None,
    /// A number of seconds.
    Seconds(u8),
    /// A time, this many seconds after the response's `Date`.
    Date(u8),
}

impl Fault {
    /// True if the client receives bytes that are not the object's.
    pub fn is_wrong_data(self) -> bool {
        matches!(self, Self::Changed | Self::Flip(_))
    }
}

/// Part of an object: requests that resume it have the same end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestPart {
    /// Path of the request.
    pub path: String,
    /// Last byte of the requested range; `None` for the whole object.
    pub last: Option<u64>,
}

impl fmt::Display for RequestPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(last) => write!(f, "{} to byte {last}", self.path),
            None => f.write_str(&self.path),
        }
    }
}

/// Faults of all parts.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The same seed gives the same faults.
    pub seed: u64,
    /// Responses of a hundred that have a fault.
    pub percent: u64,
    /// Most faults of one part. All later requests for it are answered well.
    pub faults_max: u32,
    /// No fault changes the bytes of an object: without hashes, a client cannot know.
    pub keeps_bytes: bool,
    /// Entity tags are weak, which promises no equal bytes.
    pub has_weak_tags: bool,
}

impl Schedule {
    /// Returns the fault of the request number `n`, from 0, for `part`.
    pub fn fault(&self, part: &RequestPart, n: u32) -> Option<Fault> {
        if n >= self.faults_max {
            return None;
        }
        let mut draws = Draws::new(self.seed ^ digest(part), n.into());
        if draws.below(100) >= self.percent {
            return None;
        }
        let at = draws.below(1000) as u16;
        let pause = match draws.below(3) {
            0 => Pause::None,
            1 => Pause::Seconds(draws.below(40) as u8),
            _ => Pause::Date(draws.below(40) as u8),
        };
        let fault = match draws.below(16) {
            0 => Fault::Delay,
            1 => Fault::Throttle,
            2 => Fault::Stall(at),
            3 => Fault::Stall(0),
            4 => Fault::Reset(at),
            5 => Fault::NoResponse,
            6 => Fault::Cut(at),
            7 => Fault::Status(500, pause),
            8 => Fault::Status(503, pause),
            9 => Fault::Status(429, pause),
            10 => Fault::WrongRange,
            11 => Fault::Changed,
            12 => Fault::Flip(at),
            13 => Fault::Empty,
            14 => Fault::Chunked,
            _ => Fault::ChunkedShort(at),
        };
        let keeps_bytes = self.keeps_bytes || part.path.ends_with("index.json");
        (!fault.is_wrong_data() || !keeps_bytes).then_some(fault)
    }
}

/// Returns a number that depends on all of `part` (FNV-1a).
fn digest(part: &RequestPart) -> u64 {
    let last = part.last.unwrap_or(u64::MAX).to_le_bytes();
    part.path
        .bytes()
        .chain(last)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u64) -> RequestPart {
        RequestPart { path: format!("/shard.{number:05}.mds"), last: Some(99) }
    }

    #[test]
    fn faults_follow_from_the_seed_and_end() {
        let of = |seed| {
            let schedule = Schedule { seed, percent: 50, faults_max: 3, keeps_bytes: false, has_weak_tags: false };
            (0..100).flat_map(|p| (0..5).map(move |n| schedule.fault(&part(p), n))).collect::<Vec<_>>()
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        let faults = of(7).iter().flatten().count();
        assert!((100..200).contains(&faults), "{faults} of 300");
        assert!(of(7).chunks(5).all(|of_part| of_part[3..] == [None, None]));
    }

    #[test]
    fn every_kind_of_fault_occurs_and_the_index_keeps_its_bytes() {
        let schedule = Schedule { seed: 1, percent: 100, faults_max: 1, keeps_bytes: false, has_weak_tags: false };
        let faults: Vec<_> = (0..500).filter_map(|p| schedule.fault(&part(p), 0)).collect();
        for kind in [Fault::Delay, Fault::Changed, Fault::WrongRange, Fault::Empty, Fault::Chunked, Fault::NoResponse] {
            assert!(faults.contains(&kind), "{kind:?}");
        }
        assert!(faults.iter().any(|f| matches!(f, Fault::Flip(_))));
        assert!(faults.iter().any(|f| matches!(f, Fault::Status(503, Pause::Date(_)))));
        let index = RequestPart { path: "/index.json".into(), last: None };
        let of_index = |seed| Schedule { seed, ..schedule }.fault(&index, 0);
        assert!((0..500).filter_map(of_index).all(|fault| !fault.is_wrong_data()));
        let without_hashes = Schedule { keeps_bytes: true, ..schedule };
        assert!((0..500).filter_map(|p| without_hashes.fault(&part(p), 0)).all(|fault| !fault.is_wrong_data()));
    }
}
