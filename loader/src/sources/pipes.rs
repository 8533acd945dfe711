//! Commands after `pipe:`: the usual ones are replaced by the address that they read. No command is run.

use super::pipes_table::{Meaning, PROGRAMS, Program};
use crate::error::{Error, Result};

/// Returns the address that a command reads.
///
/// # Errors
///
/// [`crate::ErrorKind::Config`] for any command that does more than write one file to its output, or that has an option
/// with an effect on the result.
pub(super) fn address(command: &str) -> Result<String> {
    let words = words(command).ok_or_else(|| not_run(command))?;
    let program = words.first().and_then(|word| PROGRAMS.iter().find(|p| word.rsplit('/').next() == Some(p.name)));
    let program = program.ok_or_else(|| not_run(command))?;
    let arguments = Arguments::parse(program, &words[1..]).transpose()?.ok_or_else(|| not_run(command))?;
    let form = program.forms.iter().find_map(|form| arguments.plain.strip_prefix(form.words).map(|rest| (form, rest)));
    let address = match form {
        Some((form, [address])) if !form.ends_with_output => *address,
        Some((form, [address, "-" | "/dev/stdout"])) if form.ends_with_output => *address,
        _ => return Err(not_run(command)),
    };
    let reads = |scheme: &&str| if scheme.is_empty() { !address.contains("://") } else { address.starts_with(*scheme) };
    let writes = !program.names_output || arguments.names_output;
    if writes && program.schemes.iter().any(reads) { Ok(address.to_owned()) } else { Err(not_run(command)) }
}

/// The error has only the program: the rest of a command may have keys.
fn not_run(command: &str) -> Error {
    let program = command.split_whitespace().next().unwrap_or_default();
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
    let program = if program.len() <= 40 && program.bytes().all(is_plain) { program } else { "..." };
    Error::config(
        "a pipe is not run: write the address that it reads, such as s3://bucket/train-{000..099}.tar, an https://, \
         gs:// or a similar address, or a path",
    )
    .with("pipe", program)
}

/// Words of a command after the program.
#[derive(Default)]
struct Arguments<'a> {
    /// Those that are neither options nor their values.
    plain: Vec<&'a str>,
    /// An option directs the file to the output.
    names_output: bool,
}

impl<'a> Arguments<'a> {
    /// Returns `None` for an unknown option.
    fn parse(program: &Program, words: &'a [String]) -> Option<Result<Self>> {
        let mut arguments = Self::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let is_option = word.starts_with('-') && word.len() > 1;
            if !is_option {
                arguments.plain.push(word);
                continue;
            }
            // A long option, or letters: the last one may have a value.
            let mut rest = word;
            while !rest.is_empty() {
                let option = program.option(&mut rest, word)?;
                let value = if option.has_value {
                    let attached = std::mem::take(&mut rest);
                    Some(if attached.is_empty() { words.next()? } else { attached.trim_start_matches('=') })
                } else {
                    None
                };
                match option.meaning {
                    Meaning::NoEffect => {}
                    Meaning::Output if value == Some("-") => arguments.names_output = true,
                    Meaning::Output => return None,
                    Meaning::Instead(instead) => {
                        return Some(Err(Error::config(format!(
                            "a pipe is not run, its address is read directly: {instead} instead of the option"
                        ))
                        .with("pipe", program.name)
                        .with("option", word.split('=').next().unwrap_or_default())));
                    }
                }
            }
        }
        Some(Ok(arguments))
    }
}

/// Splits a command as a shell does. Returns `None` where a shell would do more than to start one program.
fn words(command: &str) -> Option<Vec<String>> {
    let mut rest = command.trim();
    // The usual ends, which hide messages and failures. Here a failure is an error, after its retries.
    for end in ["true", "||", "2>/dev/null", "2> /dev/null"] {
        rest = rest.strip_suffix(end).unwrap_or(rest).trim_end();
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let (inside, after) = chars.as_str().split_once('\'')?;
                word.get_or_insert_default().push_str(inside);
                chars = after.chars();
            }
            '"' => {
                let (inside, after) = chars.as_str().split_once('"')?;
                if inside.contains(['$', '`', '\\']) {
                    return None;
                }
                word.get_or_insert_default().push_str(inside);
                chars = after.chars();
            }
            '\\' => word.get_or_insert_default().push(chars.next().filter(|c| *c != '\n')?),
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '\n' => return None,
            '~' | '#' if word.is_none() => return None,
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_commands_become_the_addresses_that_they_read() {
        for (command, read) in [
            ("aws s3 cp s3://b/a.tar -", "s3://b/a.tar"),
            (" aws s3 cp --quiet 's3://b/a b.tar' - ", "s3://b/a b.tar"),
            ("/usr/bin/aws s3 cp s3://b/a.tar - --only-show-errors", "s3://b/a.tar"),
            ("aws --region us-west-2 s3 cp s3://b/a.tar /dev/stdout || true", "s3://b/a.tar"),
            ("aws --region=us-west-2 s3 cp s3://b/a.tar - 2>/dev/null", "s3://b/a.tar"),
            ("curl https://h/a.tar", "https://h/a.tar"),
            ("curl -s -L https://h/a.tar || true", "https://h/a.tar"),
            ("curl -sSLf --retry 5 --connect-timeout=30 \"https://h/a.tar?x=1&y=2\"", "https://h/a.tar?x=1&y=2"),
            ("curl -m60 -o - http://h/a.tar", "http://h/a.tar"),
            ("wget -qO- https://h/a.tar", "https://h/a.tar"),
            ("wget -q -O - https://h/a.tar", "https://h/a.tar"),
            ("wget -nv --output-document=- --tries 3 https://h/a.tar", "https://h/a.tar"),
            ("gsutil cat gs://b/a.tar", "gs://b/a.tar"),
            ("gsutil -q -m cp gs://b/a.tar -", "gs://b/a.tar"),
            ("gcloud storage cat gs://b/a.tar", "gs://b/a.tar"),
            ("gcloud alpha storage cat --quiet gs://b/a.tar", "gs://b/a.tar"),
            ("s5cmd --log error cat --concurrency 4 s3://b/a.tar", "s3://b/a.tar"),
            ("cat /data/a.tar", "/data/a.tar"),
            ("cat 'it'\\''s.tar'", "it's.tar"),
            ("cat a\\ b.tar 2> /dev/null", "a b.tar"),
        ] {
            assert_eq!(address(command).expect(command), read, "{command}");
        }
    }

    #[test]
    fn an_option_with_an_effect_names_the_setting_to_use() {
        for (command, instead) in [
            ("aws s3 cp --profile team s3://b/a.tar -", "set AWS_PROFILE"),
            ("aws --endpoint-url=https://h s3 cp s3://b/a.tar -", "set AWS_ENDPOINT_URL"),
            ("aws s3 cp s3://b/a.tar - --no-sign-request", "set AWS_SKIP_SIGNATURE=true"),
            ("aws s3 cp s3://b/a.tar - --request-payer requester", "set AWS_REQUEST_PAYER=requester"),
            ("s5cmd --no-sign-request cat s3://b/a.tar", "set AWS_SKIP_SIGNATURE=true"),
            ("curl -sk https://h/a.tar", "pass `ca_file`"),
            ("curl -H 'Authorization: Bearer secret' https://h/a.tar", "own scheme"),
            ("curl -x http://proxy:3128 https://h/a.tar", "set HTTPS_PROXY"),
            ("wget --no-check-certificate -qO- https://h/a.tar", "pass `ca_file`"),
            ("gsutil -u project cat gs://b/a.tar", "set GOOGLE_CLOUD_QUOTA_PROJECT"),
            ("gcloud storage cat --billing-project=p gs://b/a.tar", "set GOOGLE_CLOUD_QUOTA_PROJECT"),
        ] {
            let e = address(command).expect_err(command);
            assert_eq!(e.kind(), crate::ErrorKind::Config);
            assert!(e.to_string().contains(instead) && !e.to_string().contains("secret"), "{command}: {e}");
        }
    }

    #[test]
    fn unknown_commands_are_not_run() {
        for command in [
            "",
            "rm -rf /data",
            "aws",
            "aws s3 cp s3://b/a.tar a.tar",
            "aws s3 cp s3://b/a.tar - | gunzip",
            "aws s3 cp s3://b/a.tar - && rm a",
            "aws s3 cp $(cat name) -",
            "aws s3 cp \"s3://b/$NAME.tar\" -",
            "aws s3 cp https://h/a.tar -",
            "aws s3 sync s3://b/a.tar -",
            "aws s3 cp s3://b/a.tar - --sse-c-key k",
            "aws s3 cp s3://b/a.tar - --region",
            "curl -s h/a.tar",
            "curl -o a.tar https://h/a.tar",
            "curl https://h/a.tar https://h/b.tar",
            "wget https://h/a.tar",
            "cat a.tar b.tar",
            "cat ~/a.tar",
            "cat 'a.tar",
            "cat s3://b/a.tar",
            "cat a.tar > b",
            "gsutil cat s3://b/a.tar",
            "sudo cat a.tar",
            "Authorization:secret-key cat",
        ] {
            let e = address(command).expect_err(command);
            assert_eq!(e.kind(), crate::ErrorKind::Config);
            assert!(
                e.to_string().contains("a pipe is not run: write the address") && !e.to_string().contains("secret")
            );
        }
    }
}
