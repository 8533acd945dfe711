//! Programs after `pipe:` with results that can be fetched directly, and their options.

/// Program that writes a file to its output.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) forms: &'static [Form],
    /// Starts of the addresses that it reads; empty for paths.
    pub(super) schemes: &'static [&'static str],
    /// It writes to its output only with an option for that.
    pub(super) names_output: bool,
    options: &'static [Opt],
}

/// Words before the address.
pub(super) struct Form {
    pub(super) words: &'static [&'static str],
    /// The address is followed by `-`.
    pub(super) ends_with_output: bool,
}

/// Option of a program.
pub(super) struct Opt {
    /// Long name with its dashes, or a letter.
    name: &'static str,
    pub(super) has_value: bool,
    pub(super) meaning: Meaning,
}

/// Effect of an option.
#[derive(Clone, Copy)]
pub(super) enum Meaning {
    /// None on the bytes: messages, retries and time limits, which the loader has for itself.
    NoEffect,
    /// The value is the file to write.
    Output,
    /// It changes the result: the sentence names the loader's setting.
    Instead(&'static str),
}

impl Program {
    /// Returns the option at the start of `rest` and cuts it off, with the dashes of `word` where `rest` is all of it.
    pub(super) fn option(&self, rest: &mut &str, word: &str) -> Option<&Opt> {
        if word.starts_with("--") {
            let (name, value) = rest.split_at(rest.find('=').unwrap_or(rest.len()));
            let option = self.options.iter().find(|option| option.name == name)?;
            *rest = value;
            return (option.has_value || value.is_empty()).then_some(option);
        }
        let letters = if rest.len() == word.len() { &rest[1..] } else { *rest };
        let option = self.options.iter().find(|option| option.name.len() == 1 && letters.starts_with(option.name))?;
        *rest = &letters[1..];
        Some(option)
    }
}

const fn form(words: &'static [&'static str], ends_with_output: bool) -> Form {
    Form { words, ends_with_output }
}

const fn flag(name: &'static str) -> Opt {
    Opt { name, has_value: false, meaning: Meaning::NoEffect }
}

const fn value(name: &'static str) -> Opt {
    Opt { name, has_value: true, meaning: Meaning::NoEffect }
}

const fn output(name: &'static str) -> Opt {
    Opt { name, has_value: true, meaning: Meaning::Output }
}

const fn flag_instead(name: &'static str, sentence: &'static str) -> Opt {
    Opt { name, has_value: false, meaning: Meaning::Instead(sentence) }
}

const fn value_instead(name: &'static str, sentence: &'static str) -> Opt {
    Opt { name, has_value: true, meaning: Meaning::Instead(sentence) }
}

const PROFILE: &str = "set AWS_PROFILE";
const ENDPOINT: &str = "set AWS_ENDPOINT_URL";
const UNSIGNED: &str = "set AWS_SKIP_SIGNATURE=true";
const PAYER: &str = "set AWS_REQUEST_PAYER=requester";
const CERTIFICATES: &str = "pass `ca_file`, or set SSL_CERT_FILE,";
const HEADERS: &str = "use the store's own scheme, such as s3://, gs:// or hf://, with its credentials";
const PROJECT: &str = "set GOOGLE_CLOUD_QUOTA_PROJECT";
const ACCOUNT: &str = "set GOOGLE_APPLICATION_CREDENTIALS";
const PROXY: &str = "set HTTPS_PROXY";
const WEB: &[&str] = &["https://", "http://"];

/// All of them.
pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "aws",
        forms: &[form(&["s3", "cp"], true)],
        schemes: &["s3://"],
        names_output: false,
        options: &[
            flag("--quiet"),
            flag("--only-show-errors"),
            flag("--no-progress"),
            // The engine learns a bucket's region from the server.
            value("--region"),
            value("--source-region"),
            value("--cli-read-timeout"),
            value("--cli-connect-timeout"),
            value("--expected-size"),
            value_instead("--profile", PROFILE),
            value_instead("--endpoint-url", ENDPOINT),
            flag_instead("--no-sign-request", UNSIGNED),
            value_instead("--request-payer", PAYER),
            flag_instead("--no-verify-ssl", CERTIFICATES),
            value_instead("--ca-bundle", CERTIFICATES),
        ],
    },
    Program {
        name: "curl",
        forms: &[form(&[], false)],
        schemes: WEB,
        names_output: false,
        options: &[
            flag("s"),
            flag("--silent"),
            flag("S"),
            flag("--show-error"),
            flag("L"),
            flag("--location"),
            flag("f"),
            flag("--fail"),
            flag("g"),
            flag("--globoff"),
            flag("N"),
            flag("--no-buffer"),
            flag("--retry-all-errors"),
            flag("--retry-connrefused"),
            value("--retry"),
            value("--retry-delay"),
            value("--retry-max-time"),
            value("--connect-timeout"),
            value("m"),
            value("--max-time"),
            value("A"),
            value("--user-agent"),
            output("o"),
            output("--output"),
            value_instead("H", HEADERS),
            value_instead("--header", HEADERS),
            value_instead("u", HEADERS),
            value_instead("--user", HEADERS),
            value_instead("--oauth2-bearer", HEADERS),
            value_instead("x", PROXY),
            value_instead("--proxy", PROXY),
            flag_instead("k", CERTIFICATES),
            flag_instead("--insecure", CERTIFICATES),
            value_instead("--cacert", CERTIFICATES),
        ],
    },
    Program {
        name: "wget",
        forms: &[form(&[], false)],
        schemes: WEB,
        names_output: true,
        options: &[
            flag("q"),
            flag("--quiet"),
            // `-nv`, not verbose.
            value("n"),
            flag("--no-verbose"),
            value("t"),
            value("--tries"),
            value("T"),
            value("--timeout"),
            value("--waitretry"),
            value("--read-timeout"),
            value("--connect-timeout"),
            value("U"),
            value("--user-agent"),
            output("O"),
            output("--output-document"),
            value_instead("--header", HEADERS),
            value_instead("--user", HEADERS),
            value_instead("--password", HEADERS),
            flag_instead("--no-check-certificate", CERTIFICATES),
            value_instead("--ca-certificate", CERTIFICATES),
        ],
    },
    Program {
        name: "gsutil",
        forms: &[form(&["cat"], false), form(&["cp"], true)],
        schemes: &["gs://"],
        names_output: false,
        options: &[flag("m"), flag("q"), value_instead("u", PROJECT), value_instead("i", ACCOUNT)],
    },
    Program {
        name: "gcloud",
        forms: &[
            form(&["storage", "cat"], false),
            form(&["storage", "cp"], true),
            form(&["alpha", "storage", "cat"], false),
            form(&["alpha", "storage", "cp"], true),
        ],
        schemes: &["gs://"],
        names_output: false,
        options: &[
            flag("q"),
            flag("--quiet"),
            flag("--no-user-output-enabled"),
            value("--verbosity"),
            value_instead("--project", PROJECT),
            value_instead("--billing-project", PROJECT),
            value_instead("--account", ACCOUNT),
            value_instead("--impersonate-service-account", ACCOUNT),
        ],
    },
    Program {
        name: "s5cmd",
        forms: &[form(&["cat"], false)],
        schemes: &["s3://"],
        names_output: false,
        options: &[
            value("--log"),
            value("--numworkers"),
            value("r"),
            value("--retry-count"),
            value("c"),
            value("--concurrency"),
            value("p"),
            value("--part-size"),
            value_instead("--profile", PROFILE),
            value_instead("--credentials-file", "set AWS_SHARED_CREDENTIALS_FILE"),
            value_instead("--endpoint-url", ENDPOINT),
            flag_instead("--no-sign-request", UNSIGNED),
            value_instead("--request-payer", PAYER),
            flag_instead("--no-verify-ssl", CERTIFICATES),
        ],
    },
    Program { name: "cat", forms: &[form(&[], false)], schemes: &[""], names_output: false, options: &[flag("u")] },
];
