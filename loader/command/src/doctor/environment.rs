//! Checks of this machine, and of the store of the data.

mod disk;
mod machine;
mod store;

use super::finding::Findings;
use crate::Session;
use forebay_loader::Result;
use std::path::Path;

/// Adds facts and findings about the machine, about the folder `local` for shards, and about the stores of `addresses`.
pub(super) fn check(
    session: &Session,
    addresses: &[String],
    local: Option<&Path>,
    findings: &mut Findings,
) -> Result<()> {
    machine::check(findings)?;
    disk::check(local, findings);
    addresses.iter().for_each(|address| store::check(session, address, findings));
    Ok(())
}
