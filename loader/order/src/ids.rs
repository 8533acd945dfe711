//! Newtypes for numbers that must not be confused.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($raw:ty), $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $raw);

        impl $name {
            /// The number as an index.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

id!(
    /// A shard of the data set: streams in order, the shards of each in the order of its index, from 0.
    ShardId(u32), "shard"
);
id!(
    /// A sample of the data set: shards in order, the samples of each in order, from 0.
    SampleId(u64), "sample"
);
id!(
    /// A stream of the data set, in the order given, from 0.
    StreamId(u32), "stream"
);
id!(
    /// A process of the training job, from 0: all ranks of node 0, then all of node 1.
    Rank(u32), "rank"
);
id!(
    /// A physical node of the training job, from 0.
    Node(u32), "node"
);
