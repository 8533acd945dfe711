//! JPEG files, cut by a Python script, and packed into the remaining forms here.

use super::files::{list, read};
use super::set::{DataSet, Form, Photos, SampleKind, SynthArgs, shuffle};
use super::{mds, tar};
use crate::folder::{has_index, make_whole};
use crate::python::Scripts;
use forebay_loader::{Error, Result};
use forebay_tests::data;
use std::path::Path;

const SCRIPT: (&str, &str) = ("synth_images.py", include_str!("../../scripts/synth_images.py"));

/// Makes the files unless they exist, then the remaining forms.
pub(super) fn make(args: &SynthArgs) -> Result<DataSet> {
    let mut forms = args.forms.clone();
    // A form is made before its copy.
    forms.sort_unstable();
    if forms.contains(&Form::MdsIndexed) && !forms.contains(&Form::Mds) && !has_index(&args.out.join("mds")) {
        return Err(Error::config(
            "the form mds-indexed is a copy of mds, which is not there: make both, --forms mds,mds-indexed",
        ));
    }
    let files = args.out.join("files");
    if !files.is_dir() {
        cut(args, &files)?;
    }
    let mut samples = list(&files)?;
    shuffle(&mut samples, args.seed);
    for form in forms {
        match form {
            Form::Files => {}
            Form::Tar => tar::write(&args.out.join("tar"), &samples, args.shard_bytes_max)?,
            Form::Mds => mds::write(args, |into, options| data::images(into, samples.iter().map(read), options))?,
            Form::MdsIndexed => mds::index(args)?,
        }
    }
    let bytes = samples.iter().map(|s| s.bytes).sum();
    let count = samples.len() as u64;
    Ok(DataSet { kind: SampleKind::Images, samples: count, bytes, length: 0, seed: args.seed, root: args.out.clone() })
}

/// Cuts the photographs. The folder appears when it is complete.
fn cut(args: &SynthArgs, files: &Path) -> Result<()> {
    let source = match args.photos {
        Photos::Packaged => "packaged",
        Photos::Debian => "debian",
        Photos::Folder => "folder",
    };
    let photos = match (&args.photo_dir, args.photos) {
        (Some(folder), _) => folder.clone(),
        (None, Photos::Folder) => return Err(Error::config("--photos folder needs --photo-dir")),
        (None, _) => args.out.with_file_name("photos"),
    };
    let text = |path: &Path| path.display().to_string();
    make_whole(files, |part| {
        let argv = [text(part), args.samples.to_string(), args.seed.to_string(), source.to_owned(), text(&photos)];
        Scripts::unpack(&[SCRIPT])?.call(&args.python, SCRIPT.0, &argv)
    })
}
