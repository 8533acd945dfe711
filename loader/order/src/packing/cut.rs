//! `cut`: one document after the next, cut where a pack is full.

use super::config::PackConfig;
use super::fragments::Fragment;

/// Replaces the content of `packs` with the pack of each item of `fragments`, which are cut where a pack ends. Returns
/// the number of packs.
pub(super) fn cut(config: &PackConfig, fragments: &mut Vec<Fragment>, packs: &mut Vec<u32>) -> u32 {
    packs.clear();
    let whole = std::mem::take(fragments);
    let (mut pack, mut used, mut sequences) = (0, 0, 0);
    for mut rest in whole {
        loop {
            if used == config.length || sequences == config.sequences_max() {
                (pack, used, sequences) = (pack + 1, 0, 0);
            }
            let tokens = rest.tokens.min(config.length - used);
            fragments.push(Fragment { tokens, ..rest });
            packs.push(pack);
            used += config.occupied(tokens);
            sequences += 1;
            if tokens == rest.tokens {
                break;
            }
            rest = Fragment { first: rest.first + tokens, tokens: rest.tokens - tokens, ..rest };
        }
    }
    pack + u32::from(used > 0)
}
