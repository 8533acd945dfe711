//! numpy's `.npz` files: zip archives with an array in each member, as `savez` and `savez_compressed` write them.
//!
//! ```text
//!   local header | member "x.npy" | local header | member "y.npy" | .. | directory | end
//! ```
//!
//! * `zip`: the members of an archive, by its directory;
//! * `arrays`: the arrays of a file, which become the columns of a sample.
//!
//! An array keeps its header, so its type and shape may differ from file to file. Nothing is unpickled: an array of
//! Python objects can be a column: no field takes its bytes for an array. The remaining members are bytes, as for
//! numpy.
//!
//! No crate parses the archives: `zip` and `rc-zip` read a directory of any length, with times, comments and code
//! pages, and leave the limits for the numbers that a member declares to their caller. A data set needs the name of
//! each entry and five numbers. The decompression is a library's.

mod arrays;
#[cfg(test)]
mod tests;
mod zip;

pub use arrays::Npz;
