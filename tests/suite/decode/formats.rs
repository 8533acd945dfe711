//! Damaged files of pictures that are no JPEGs: decoded if the format cannot detect the damage, otherwise rejected,
//! without a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use forebay_tests::data::Draws;
use forebay_tests::hostile::damage;

use super::target;

/// Damaged inputs per seed; `FOREBAY_HOSTILE_ROUNDS` overrides it.
const ROUNDS: u64 = 300;

/// Start codes of WebP and GIF, flags, and numbers that are often wrong for lengths.
const SPECIAL_BYTES: [u8; 8] = [0x2f, 0x9d, 0x2a, 0x2c, 0x00, 0x7f, 0x80, 0xff];

#[test]
fn damaged_files_are_decoded_or_rejected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/pictures/seeds");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(seeds.len() >= 30, "{}", seeds.len());
    let rounds = std::env::var("FOREBAY_HOSTILE_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let mut draws = Draws::new(19, 0);
    let (mut decoded, mut rejected) = (0, 0);
    for (seed, file) in seeds.iter().zip(&files) {
        for round in 0..rounds {
            let input = if round == 0 { seed.clone() } else { damage(seed, &seeds, &SPECIAL_BYTES, &mut draws) };
            match catch_unwind(AssertUnwindSafe(|| target::check(&input))) {
                Ok(true) => decoded += 1,
                Ok(false) => rejected += 1,
                Err(_) => panic!("{}, round {round}: {}", file.display(), input.escape_ascii()),
            }
        }
    }
    println!("{decoded} decoded, {rejected} rejected");
    assert!(decoded > 0 && rejected > 0);
}
