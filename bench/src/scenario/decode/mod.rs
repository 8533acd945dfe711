//! Decoding on one thread: libjpeg-turbo, zune-jpeg and forebay's decoder, of whole pictures and of the boxes of random
//! crops, and complete random crops by the engine and by libjpeg-turbo with a fast resize library; all pictures
//! together or in groups. Alternatively the time of each of the engine's stages ([`stages`]).
//!
//! The pictures are in memory. The programs take turns for several rounds, and the best round counts. Time is the
//! thread's CPU time. So a busy moment of the machine does not affect only one of them.

//!
//! * `groups` sorts pictures by their headers.
//! * `work` has the measured programs.
//! * `stages` measures the stages of forebay's decoder.

mod groups;
mod stages;
mod work;

use crate::report::{Better, Column, Report, Row};
use crate::synth::files_below;
use forebay_loader::decode::jpeg::RowIndexer;
use forebay_loader::{Error, Result};
use std::collections::BTreeMap;
use std::fs;
pub(crate) use work::DecodeArgs;
use work::ways;
pub(super) use work::{Choices, Picture, Way, row, thread_cpu_seconds};

/// Measures all decoders on all pictures.
pub(crate) fn run(args: &DecodeArgs) -> Result<Report> {
    let (mut pictures, mut indexer) = (Vec::new(), RowIndexer::default());
    for path in files_below(&args.data)? {
        if pictures.len() < args.pictures && path.extension().is_some_and(|e| e == "jpg" || e == "jpeg") {
            let file = fs::read(&path).map_err(|e| Error::from_io(e, "a picture").with("file", path.display()))?;
            pictures.push(Picture::new(file, &mut indexer));
        }
    }
    if pictures.is_empty() {
        return Err(Error::config("no JPEG files here").with("data", args.data.display()));
    }
    if args.stages {
        return stages::run(args, &pictures);
    }
    let bytes: usize = pictures.iter().map(|picture| picture.file.len()).sum();
    let (indexes, without) = pictures.iter().fold((0, 0), |(bytes, without), picture| {
        (bytes + picture.row_index.len(), without + usize::from(picture.row_index.is_empty()))
    });
    let kb = bytes as f64 / pictures.len() as f64 / 1e3;
    let mut groups = BTreeMap::<String, Vec<(u64, &Picture)>>::new();
    for (i, picture) in (0..).zip(&pictures) {
        groups.entry(groups::group(&picture.file, args.by)).or_default().push((i, picture));
    }
    let title = format!(
        "{} JPEGs of {kb:.0} kB in memory, one thread, best of {} rounds; row indexes take {:.2} % of the bytes, \
         {without} files have none",
        pictures.len(),
        args.rounds,
        100.0 * indexes as f64 / bytes as f64,
    );
    let columns = vec![
        Column::new("images_per_s", "images per CPU s", 0, Better::Higher).plotted(),
        Column::new("us_per_image", "us per image", 0, Better::Lower),
        Column::new("mb_per_s", "MB/s of JPEG", 0, Better::Higher),
        Column::new("pictures", "pictures", 0, Better::Neither),
    ];
    let mut report = Report::new("decode", title, columns);
    let mut ways = ways(args.crop)?;
    report.baseline = Some(ways[0].0.to_owned());
    for (group, members) in groups {
        let mut best = vec![f64::INFINITY; ways.len()];
        for round in 0..u64::from(args.rounds.max(1)) {
            for ((_, way), best) in ways.iter_mut().zip(&mut best) {
                let start = thread_cpu_seconds();
                for (i, picture) in &members {
                    way(picture, round * pictures.len() as u64 + i)?;
                }
                *best = best.min(thread_cpu_seconds() - start);
            }
        }
        let (count, bytes) = (members.len() as f64, members.iter().map(|(_, p)| p.file.len()).sum::<usize>() as f64);
        for ((name, _), seconds) in ways.iter().zip(best) {
            let values = BTreeMap::from([
                ("pictures", count),
                ("images_per_s", count / seconds),
                ("us_per_image", seconds / count * 1e6),
                ("mb_per_s", bytes / seconds / 1e6),
            ]);
            report.rows.push(Row { group: group.clone(), name: (*name).to_owned(), values, ..Row::default() });
        }
    }
    Ok(report)
}
