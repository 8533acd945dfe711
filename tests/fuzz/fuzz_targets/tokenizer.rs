#![no_main]
//! A tokenizer and a text. The first two bytes are the length of the tokenizer, and the third one chooses its settings.

use forebay_text::{Encoding, Ids, Settings, Special, Tokenizer};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [low, high, choice, rest @ ..] = bytes else { return };
    let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
    let (file, text) = rest.split_at(length);
    let (Ok(file), text) = (std::str::from_utf8(file), String::from_utf8_lossy(text)) else { return };
    let settings = Settings {
        allowed: if choice & 1 == 0 { Special::Nothing } else { Special::All },
        encoding: (choice & 2 != 0).then(|| Encoding::Named("cl100k_base".to_owned())),
        ..Settings::default()
    };
    let Ok(tokenizer) = Tokenizer::load(file, &settings) else { return };
    let (mut ids, mut head) = (Ids::default(), Ids::default());
    if tokenizer.encode(&text, &mut ids).is_ok() {
        assert!(ids.as_slice().iter().all(|&id| id <= tokenizer.id_max()));
        assert!(tokenizer.encode_head(&text, 3, &mut head).is_ok());
        assert!(ids.as_slice().starts_with(head.as_slice()));
    }
});
