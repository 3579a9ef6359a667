//! Features for a text without a trained model: letter statistics of the last few words.
//!
//! A trained layer would compute keys and values with learned projections. Here each word's letters
//! and letter pairs are counted into a few hashed bins, short words weigh less, and a running mean
//! over the last words stands in for the layer's context. Nothing is learned, so a state opens where
//! the spelling changes, which it does between these passages, not where the meaning does.

/// Width of a key and of a value.
pub const WIDTH: usize = 32;

/// Words that the running mean has heard before the text begins: its own first ones, or else each of
/// them would differ from a mean of so few and open a state.
const LEAD: usize = 8;

/// The text's words, each with the white space that follows it: one token each.
pub fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let next = rest[end..]
            .find(|c: char| !c.is_whitespace())
            .map_or(rest.len(), |gap| end + gap);
        words.push(&rest[..next]);
        rest = &rest[next..];
    }
    words
}

/// One unit vector of [`WIDTH`] for each word: the running mean, of which each word keeps the share
/// `memory`, of the hashed letters. Different `seed`s hash differently.
pub fn running_mean(words: &[&str], memory: f32, seed: u64) -> Vec<f32> {
    let mut mean = [0.0; WIDTH];
    let mut hear = |word: &&str| {
        for (mean, letter) in mean.iter_mut().zip(spelling(word, seed)) {
            *mean = memory * *mean + (1.0 - memory) * letter;
        }
        unit(mean)
    };
    words.iter().take(LEAD).for_each(|word| {
        hear(word);
    });
    words.iter().flat_map(hear).collect()
}

/// A word's letters and letter pairs in hashed bins, longer words longer vectors.
fn spelling(word: &str, seed: u64) -> [f32; WIDTH] {
    let letters = word
        .chars()
        .filter(char::is_ascii_alphabetic)
        .map(|c| c.to_ascii_lowercase());
    let marked: Vec<char> = std::iter::once('<')
        .chain(letters)
        .chain(std::iter::once('>'))
        .collect();
    let mut bins = [0.0; WIDTH];
    for gram in marked.windows(1).chain(marked.windows(2)) {
        let hash = hash(gram, seed);
        bins[(hash % WIDTH as u64) as usize] += if (hash >> 40) & 1 == 1 { 1.0 } else { -1.0 };
    }
    let weight = ((marked.len() as f32 - 4.0) / 4.0).clamp(0.1, 1.0);
    unit(bins).map(|x| weight * x)
}

/// FNV-1a, its bits mixed once more so that the low ones depend on all.
fn hash(gram: &[char], seed: u64) -> u64 {
    let fnv = gram.iter().fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, &c| {
        (hash ^ u64::from(c)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

fn unit(x: [f32; WIDTH]) -> [f32; WIDTH] {
    let length = x.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        x.map(|x| x / length)
    } else {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_rebuild_the_text() {
        let text = "Out, out,\n\nbrief  candle!\n";
        assert_eq!(words(text), ["Out, ", "out,\n\n", "brief  ", "candle!\n"]);
        assert_eq!(words(text).concat(), text);
    }

    #[test]
    fn features_are_unit_vectors_of_spelling() {
        let rows = running_mean(&["Light ", "light, ", "caldron"], 0.0, 1);
        let (light, others) = rows.split_at(WIDTH);
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        assert!((dot(light, light) - 1.0).abs() < 1e-5);
        assert!((dot(light, &others[..WIDTH]) - 1.0).abs() < 1e-5);
        assert!(dot(light, &others[WIDTH..]) < 0.7);
    }
}
