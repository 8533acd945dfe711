//! `object-server FOLDER`: serves a folder on a free port of loopback until standard input ends.
//!
//! Small on purpose: `make run` builds it instead of the bench, which has options in its `serve` command.

use forebay_tests::server::{ObjectServer, Options, Root};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).filter(|folder| Path::new(folder).is_dir()) else {
        eprintln!("usage: object-server FOLDER");
        return ExitCode::from(2);
    };
    let folder = Path::new(&folder);
    let served =
        ObjectServer::start(Root::folder(folder), Options::default()).and_then(|server| server.serve_until_eof(folder));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("object-server: {}: {e}", folder.display());
            ExitCode::FAILURE
        }
    }
}
