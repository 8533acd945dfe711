//! Many short texts in one allocation.

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// List of texts, which takes little more memory than their characters: a folder may have millions of files.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Texts {
    characters: String,
    /// End of each text in `characters`.
    ends: Vec<u64>,
}

impl Texts {
    /// Adds a text.
    pub fn push(&mut self, text: &str) {
        self.characters.push_str(text);
        self.ends.push(self.characters.len() as u64);
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no text.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns text `i`, which exists.
    ///
    /// # Panics
    ///
    /// If it does not exist.
    pub fn get(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.characters[start as usize..self.ends[i] as usize]
    }

    /// Returns all texts in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Bytes of all texts.
    pub fn bytes(&self) -> u64 {
        self.characters.len() as u64
    }

    /// Returns the index of `text` in a sorted list.
    pub fn find(&self, text: &str) -> Option<usize> {
        let (mut start, mut end) = (0, self.len());
        while start < end {
            let middle = start.midpoint(end);
            match self.get(middle).cmp(text) {
                std::cmp::Ordering::Less => start = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        None
    }
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        let mut texts = Self::default();
        all.into_iter().for_each(|text| texts.push(text.as_ref()));
        texts.characters.shrink_to_fit();
        texts.ends.shrink_to_fit();
        texts
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Texts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(TextsVisitor)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Texts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Texts, A::Error> {
        let mut texts = Texts::default();
        // Borrowed where the document has no escape, so that a text costs no allocation.
        while let Some(Borrowed(text)) = list.next_element()? {
            texts.push(&text);
        }
        Ok(texts)
    }
}

#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_in_order_and_found_in_a_sorted_list() {
        let list = ["", "a", "a-b", "ä", "名前"];
        let texts: Texts = list.iter().collect();
        assert_eq!(texts.iter().collect::<Vec<_>>(), list);
        assert_eq!((texts.len(), texts.bytes()), (5, 12));
        (0..5).for_each(|i| assert_eq!(texts.find(list[i]), Some(i)));
        assert_eq!((texts.find("b"), texts.find("zz"), Texts::default().find("")), (None, None, None));
        let written = serde_json::to_string(&texts).unwrap();
        assert_eq!(serde_json::from_str::<Texts>(&written).unwrap(), texts);
        assert_eq!(serde_json::from_str::<Texts>("[\"\\u00e4\\n\"]").unwrap().get(0), "ä\n");
        assert!(serde_json::from_str::<Texts>("[1]").is_err());
    }
}
