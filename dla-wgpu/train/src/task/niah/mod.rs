//! Needles in haystacks, as RULER makes them (arXiv 2404.06654).

mod kind;
mod sentences;
mod words;

use dla_core::{Error, Result};
use dla_text::Tokenizer;

pub use self::kind::{Haystack, Kind, Recipe};
use self::sentences::Sentences;
pub use self::words::Item;
use super::{Corpus, Split, Task};
use crate::batch::Example;
use crate::random::Random;

/// The line that noise repeats.
const NOISE: &str =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";
/// Needles lie at 40 depths, equally far from each other.
const DEPTHS: u64 = 40;

/// Settings of [`Niah`].
#[derive(Clone, Debug, PartialEq)]
pub struct NiahOptions {
    /// Tokens of an example, the question and the answer among them.
    pub tokens: usize,
    /// The kinds, each equally likely.
    pub kinds: Vec<Kind>,
    /// What keys are, where it is not what the kind says.
    pub keys: Option<Item>,
    /// What values are, where it is not what the kind says.
    pub values: Option<Item>,
    /// The whole text is to be predicted, not only the answer.
    pub whole_text: bool,
}

/// Keys with values hidden in a long text; some are asked for at its end.
///
/// The needle is `One of the special magic {type} for {key} is: {value}.`; needles lie at different ones of
/// the depths round(linspace(0, 100, 40)), in percent of the haystack's lines or sentences. As much
/// haystack is taken as fits the length; padding after the answer does not count.
pub struct Niah {
    options: NiahOptions,
    tokenizer: Tokenizer,
    sentences: Option<Sentences>,
    vocabulary: usize,
    fingerprint: u64,
}

/// A text with needles, a question about them and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Puzzle {
    /// The text, the question and the beginning of the answer.
    pub prompt: String,
    /// What is to come, with a blank before it.
    pub answer: String,
    /// The values in the answer.
    pub values: Vec<String>,
    /// The depth of the first needle that is asked for, in percent.
    pub depth: u32,
}

/// The longest examples: haystacks of hundreds of megabytes are a mistake.
const MOST_TOKENS: usize = 1 << 24;

/// A key's value and where it lies.
struct Needle {
    key: usize,
    value: String,
    depth: u32,
}

/// The depths in percent, round(linspace(0, 100, `count`)); 0 alone for one.
///
/// ```
/// use dla_train::task::niah::depths;
/// assert_eq!(depths(5), [0, 25, 50, 75, 100]);
/// assert_eq!(depths(40)[..4], [0, 3, 5, 8]);
/// ```
pub fn depths(count: u64) -> Vec<u32> {
    let last = count.saturating_sub(1).max(1);
    // Halves go to the even neighbour, as NumPy rounds.
    let depth = |i| (100.0 * i as f64 / last as f64).round_ties_even() as u32;
    (0..count).map(depth).collect()
}

impl Niah {
    /// Examples of these settings; `corpus` is the haystack of the kinds that lie in text, and
    /// `vocabulary` the model's, which bounds the tokenizer's ids.
    ///
    /// # Errors
    /// For no kinds, kinds in text without texts, and a length that a kind does not fit into.
    pub fn new(
        options: NiahOptions,
        tokenizer: Tokenizer,
        vocabulary: usize,
        corpus: Option<&Corpus>,
    ) -> Result<Self> {
        if options.kinds.is_empty() {
            return Err(Error::input("niah", "kinds", "at least one", "none"));
        }
        if options.tokens > MOST_TOKENS {
            let expected = format!("at most {MOST_TOKENS}");
            return Err(Error::input("niah", "length", expected, options.tokens));
        }
        let sentences = corpus.map(Sentences::of).filter(|texts| !texts.is_empty());
        let in_text = |kind: &&Kind| kind.recipe().haystack == Haystack::Text;
        if let (Some(kind), None) = (options.kinds.iter().find(in_text), &sentences) {
            let expected = format!("texts, for {} hides its needles in them", kind.name());
            return Err(Error::input("niah", "files", expected, "none"));
        }
        let task = Self {
            vocabulary: if tokenizer.is_bytes() {
                256
            } else {
                vocabulary
            },
            fingerprint: corpus.map_or(0, Corpus::fingerprint),
            options,
            tokenizer,
            sentences,
        };
        for &kind in &task.options.kinds {
            // The least haystack is none; an example's length hardly varies beyond it.
            task.puzzle(kind, Split::Train, None, &mut Random::of(0, 0, 0))?;
        }
        Ok(task)
    }

    /// A puzzle of one kind; `depth` is where the first needle that is asked for lies.
    ///
    /// # Errors
    /// When not even the needles fit the length, and text that the tokenizer does not take.
    pub fn puzzle(
        &self,
        kind: Kind,
        split: Split,
        depth: Option<u32>,
        random: &mut Random,
    ) -> Result<Puzzle> {
        let recipe = self.recipe(kind);
        let keys = recipe.keys.draw_distinct(recipe.needles, random);
        let needles = needles(&recipe, depth, random);
        let mut draft = Draft {
            recipe,
            keys,
            needles,
            units: Vec::new(),
        };
        self.fill(&mut draft, split, random)?;
        Ok(draft.puzzle())
    }

    /// The ids of the puzzle's prompt, and of its answer.
    ///
    /// # Errors
    /// For text that the tokenizer does not take.
    pub fn encode(&self, puzzle: &Puzzle) -> Result<(Vec<u32>, Vec<u32>)> {
        let prompt = self.tokenizer.encode(&puzzle.prompt)?;
        let mut all = self
            .tokenizer
            .encode(&(puzzle.prompt.clone() + &puzzle.answer))?;
        // A token may reach across the border, and the tokenizer may end every text with a token.
        let same = prompt.iter().zip(&all).take_while(|(a, b)| a == b).count();
        let answer = all.split_off(same);
        Ok((all, answer))
    }

    /// The tokenizer of the puzzles.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn recipe(&self, kind: Kind) -> Recipe {
        let recipe = kind.recipe();
        Recipe {
            keys: self.options.keys.unwrap_or(recipe.keys),
            values: self.options.values.unwrap_or(recipe.values),
            ..recipe
        }
    }

    /// Adds as much haystack as fits.
    fn fill(&self, draft: &mut Draft, split: Split, random: &mut Random) -> Result<()> {
        let room = self.options.tokens + 1;
        let least = self.len(draft)?;
        if least > room {
            let expected = format!("at least {} tokens for the needles alone", least - 1);
            return Err(Error::input(
                "niah",
                "length",
                expected,
                self.options.tokens,
            ));
        }
        let mut used = least;
        for unit in self.units(&draft.recipe, split, random) {
            // With what joins it to the others.
            used += self.tokenizer.encode(&unit)?.len() + 1;
            if used > room {
                break;
            }
            draft.units.push(unit);
        }
        // Tokens of parts need not add up to those of the whole.
        while !draft.units.is_empty() && self.len(draft)? > room {
            draft.units.pop();
        }
        Ok(())
    }

    /// Tokens of the draft with its answer.
    fn len(&self, draft: &Draft) -> Result<usize> {
        let puzzle = draft.puzzle();
        Ok(self
            .tokenizer
            .encode(&(puzzle.prompt + &puzzle.answer))?
            .len())
    }

    /// What the haystack is made of, without end.
    fn units<'a>(
        &'a self,
        recipe: &Recipe,
        split: Split,
        random: &'a mut Random,
    ) -> Box<dyn Iterator<Item = String> + 'a> {
        let (keys, values) = (recipe.keys, recipe.values);
        match (recipe.haystack, &self.sentences) {
            (Haystack::Text, Some(texts)) => Box::new(texts.starting_anywhere(split, random)),
            (Haystack::Needles, _) => Box::new(std::iter::repeat_with(move || {
                needle(values, &keys.draw(random), &values.draw(random))
            })),
            _ => Box::new(std::iter::repeat_with(|| NOISE.to_owned())),
        }
    }
}

/// The needles of a recipe at different depths, those of the keys that are asked for first.
fn needles(recipe: &Recipe, depth: Option<u32>, random: &mut Random) -> Vec<Needle> {
    let count = recipe.needles * recipe.values_per_key;
    let all = depths(DEPTHS);
    let mut places: Vec<u32> = random
        .distinct(0..all.len() as u32, count)
        .into_iter()
        .map(|place| all[place as usize])
        .collect();
    if let Some(depth) = depth {
        places[0] = depth;
    }
    let values = recipe.values.draw_distinct(count, random);
    let needles = values.into_iter().zip(places).enumerate();
    let needle = |(i, (value, depth))| Needle {
        key: i / recipe.values_per_key,
        value,
        depth,
    };
    needles.map(needle).collect()
}

fn needle(values: Item, key: &str, value: &str) -> String {
    format!("One of the special magic {values} for {key} is: {value}.")
}

/// A puzzle that haystack is still added to.
struct Draft {
    recipe: Recipe,
    keys: Vec<String>,
    needles: Vec<Needle>,
    units: Vec<String>,
}

impl Draft {
    fn puzzle(&self) -> Puzzle {
        let what = self.recipe.values;
        let query = listed(&self.keys[..self.recipe.asked]);
        let context = self.context();
        let values = self.answers();
        Puzzle {
            prompt: format!(
                "Some special magic {what} are hidden within the following text. Make sure to \
                 memorize it. I will quiz you about the {what} afterwards.\n{context}\nWhat are all \
                 the special magic {what} for {query} mentioned in the provided text? The special \
                 magic {what} for {query} mentioned in the provided text are"
            ),
            answer: format!(" {}.", values.join(", ")),
            values,
            depth: self.needles[0].depth,
        }
    }

    /// The haystack with its needles.
    fn context(&self) -> String {
        let mut needles: Vec<&Needle> = self.needles.iter().collect();
        needles.sort_by_key(|needle| needle.depth);
        let mut needles = needles.into_iter().peekable();
        let mut parts = Vec::with_capacity(self.units.len() + self.needles.len());
        for at in 0..=self.units.len() {
            let place = |needle: &Needle| self.units.len() * needle.depth as usize / 100;
            while let Some(found) = needles.next_if(|needle| place(needle) <= at) {
                parts.push(needle(
                    self.recipe.values,
                    &self.keys[found.key],
                    &found.value,
                ));
            }
            parts.extend(self.units.get(at).cloned());
        }
        parts.join(match self.recipe.haystack {
            Haystack::Text => " ",
            Haystack::Noise | Haystack::Needles => "\n",
        })
    }

    /// The values that are asked for: by key in the question's order, then as they lie in the text.
    fn answers(&self) -> Vec<String> {
        let mut asked: Vec<&Needle> = self.needles.iter().collect();
        asked.retain(|needle| needle.key < self.recipe.asked);
        asked.sort_by_key(|needle| (needle.key, needle.depth));
        asked
            .into_iter()
            .map(|needle| needle.value.clone())
            .collect()
    }
}

/// `a`, or `a, b, and c`.
fn listed(keys: &[String]) -> String {
    match keys {
        [only] => only.clone(),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
        [] => String::new(),
    }
}

impl Task for Niah {
    fn example(&self, split: Split, random: &mut Random) -> Result<Example> {
        let kind = *random.pick(&self.options.kinds);
        let puzzle = self.puzzle(kind, split, None, random)?;
        let (mut text, answer) = self.encode(&puzzle)?;
        let first = match self.options.whole_text {
            true => 0,
            false => text.len(),
        };
        text.extend(answer);
        Ok(Example::of_text(&text, first, self.options.tokens))
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}
