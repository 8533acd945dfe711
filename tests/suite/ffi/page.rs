//! The page about C: its programs are compiled and run by its commands, and print the output that it shows.

use crate::rig::{ffi, succeeded};
use std::process::Command;

/// A block of a page: language, title and text.
struct Block<'a> {
    language: &'a str,
    title: Option<&'a str>,
    text: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let fenced = page.split("\n```").skip(1).step_by(2);
    let block = |block| -> Option<Block<'_>> {
        let (info, text): (&str, &str) = str::split_once(block, '\n')?;
        let (language, title) = info.split_once(' ').unwrap_or((info, ""));
        let title = title.strip_prefix("title=\"").and_then(|title| title.strip_suffix('"'));
        Some(Block { language, title, text })
    };
    fenced.filter_map(block).collect()
}

#[test]
fn the_page_about_c_leads_from_the_installation_to_the_first_batch() {
    let root = ffi().join("..");
    let page = std::fs::read_to_string(root.join("python/docs/c.md")).expect("the page");
    let home = tempfile::tempdir().expect("a folder");
    let work = home.path().join("work");
    std::fs::create_dir(&work).expect("a folder");
    let (mut script, mut shown, mut programs) = (vec!["set -eu".to_owned()], String::new(), 0);
    for block in blocks(&page) {
        match (block.language, block.title) {
            ("c" | "cpp", Some(file)) => {
                std::fs::write(work.join(file), block.text).expect("written");
                programs += 1;
            }
            ("sh", None) if block.text.contains("make install") => {
                script.push(format!("(cd '{}'; {} >&2)", root.display(), block.text.trim()));
            }
            ("sh", None) => script.push(block.text.to_owned()),
            ("text", None) => {
                shown += block.text;
                shown += "\n";
            }
            (language, title) => panic!("no test runs a block of {language} with the title {title:?}"),
        }
    }
    assert_eq!(programs, 4);
    let mut shell = Command::new("bash");
    shell.args(["-c", &script.join("\n")]).current_dir(&work);
    // The reader's home, with this machine's Rust.
    let own = |variable: &str, folder: &str| {
        let home = std::env::var_os("HOME").unwrap_or_default();
        std::env::var_os(variable).unwrap_or_else(|| std::path::Path::new(&home).join(folder).into())
    };
    shell.env("CARGO_HOME", own("CARGO_HOME", ".cargo")).env("RUSTUP_HOME", own("RUSTUP_HOME", ".rustup"));
    shell.env("HOME", home.path()).env("PROFILE", "dev");
    assert_eq!(succeeded(&mut shell), shown);
}
