//! Declaration of options: one list gives the struct, its defaults and a table of names, types and sentences.
//!
//! The gate compares that table with the signature and the docstring of the Python class of the group and with the
//! list in the C header, so a new option is declared here and copied where the gate asks for it.

/// A size in bytes; in JSON also text such as `"2gb"`.
pub type ByteSize = u64;

/// Bounds of a part, from 0 to 1.
pub type Fraction = (f64, f64);

/// Samples by number, as text such as `"0:1000, 5000:6000"`, or the path of a file of numbers.
pub type Subset = String;

/// A number for each sample: the name of a column, the path of a `.npy` file, or `float64:` and the base64 of doubles.
pub type SampleValues = String;

/// Numbers of steps.
pub type Steps = Vec<u64>;

/// A duration in seconds.
pub type Seconds = f64;

/// One option, as documented.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Name in Rust, Python and JSON.
    pub name: &'static str,
    /// Rust type, such as `Option<ByteSize>`.
    pub kind: &'static str,
    /// Sentence of its doc comment; a line per line.
    pub doc: &'static [&'static str],
}

/// Declares a struct of options with `= default` after each field.
///
/// A field's doc comment comes first, then its serde attributes.
macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[doc = $doc:literal])+ $(#[serde($($serde:tt)+)])? pub $option:ident: $kind:ty = $default:expr,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Deserialize, Serialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[doc = $doc])+ $(#[serde($($serde)+)])? pub $option: $kind,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($option: $default,)+ }
            }
        }

        impl $name {
            /// All options in the order of their declaration.
            pub const OPTIONS: &[OptionInfo] = &[
                $(OptionInfo { name: stringify!($option), kind: stringify!($kind), doc: &[$($doc),+] },)+
            ];
        }
    };
}

pub(super) use options;
