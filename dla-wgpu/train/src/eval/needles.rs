//! Needles found in haystacks: by kind, length and depth.

use dla_core::model::Call;
use dla_core::sample::largest;
use dla_core::{Error, Result};

use crate::random::Random;
use crate::scores::Reader;
use crate::task::Split;
use crate::task::niah::{Kind, Niah, Puzzle};

/// How often needles of one kind were found at one depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The kind.
    pub kind: Kind,
    /// Tokens of the texts.
    pub length: usize,
    /// The depth of the first needle that is asked for, in percent.
    pub depth: u32,
    /// The share of values that the answers hold, 0 to 1.
    pub found: f64,
}

/// Asks for needles of `kind` at `depth` in `examples` texts that are held out.
///
/// The model goes on by itself, each time with its likeliest token; an answer is right as far as its
/// values are in what it says.
///
/// # Errors
/// For no examples, those of the puzzles and those of the reader.
pub fn ask(
    reader: &impl Reader,
    task: &Niah,
    (kind, depth): (Kind, u32),
    seed: u64,
    examples: u64,
) -> Result<f64> {
    let mut found = 0.0;
    for example in 0..examples {
        let random = &mut Random::of(seed, depth.into(), example);
        let puzzle = task.puzzle(kind, Split::Held, Some(depth), random)?;
        let said = answer(reader, task, &puzzle)?;
        let right = puzzle
            .values
            .iter()
            .filter(|value| said.contains(*value))
            .count();
        found += right as f64 / puzzle.values.len() as f64;
    }
    match examples {
        0 => Err(Error::input("eval", "--examples", "at least 1", 0)),
        _ => Ok(found / examples as f64),
    }
}

/// What the model says until it ends the text: at most twice as many tokens as the answer has, and 16 more.
fn answer(reader: &impl Reader, task: &Niah, puzzle: &Puzzle) -> Result<String> {
    let (prompt, answer) = task.encode(puzzle)?;
    let mut sequence = reader.start()?;
    let mut decoder = task.tokenizer().decoder(&prompt);
    let (mut said, mut ids) = (String::new(), prompt);
    for _ in 0..2 * answer.len() + 16 {
        let reply = reader.read(&mut sequence, &ids, &Call::default())?;
        let likeliest = largest(&reply.logits, 1)?;
        let Some(&(id, _)) = likeliest.first() else {
            break;
        };
        said.push_str(&decoder.push(id));
        let all = puzzle.values.iter().all(|value| said.contains(value));
        if all || task.tokenizer().is_end(id) {
            break;
        }
        ids = vec![id];
    }
    Ok(said + &decoder.finish())
}
