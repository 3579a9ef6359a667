//! A model inside an application: what comes next?

use std::error::Error;
use std::path::Path;

use dla_core::model::Call;
use dla_core::sample::{Candidates, Sampler, SamplerOptions};
use dla_core::{Model, Result};
use dla_text::Tokenizer;

/// The most probable token after `text`, as text.
fn next(folder: &Path, text: &str) -> Result<String> {
    let model = Model::load(folder)?;
    let tokenizer = Tokenizer::of(folder, model.config())?;
    let ids = tokenizer.encode(text)?;
    let reply = model.run(&mut model.session(), &ids, &Call::default())?;
    let mut greedy = Sampler::new(SamplerOptions::greedy())?;
    let id = greedy.sample(&Candidates::Row(&reply.logits))?;
    let mut decoder = tokenizer.decoder(&ids);
    Ok(decoder.push(id) + &decoder.finish())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, text] = &words[..] else {
        return Err("usage: embed MODEL TEXT".into());
    };
    println!("{text}{}", next(folder.as_ref(), text)?);
    Ok(())
}

#[cfg(test)]
#[path = "../tiny.rs"]
mod tiny;

#[cfg(test)]
mod tests {
    use super::{next, tiny};

    #[test]
    fn the_next_token_is_a_word_of_the_vocabulary() {
        let folder = tiny::model();
        let word = next(folder.path(), "w7 w9").expect("a model");
        assert!(word.starts_with(" w"), "{word:?}");
        assert_eq!(next(folder.path(), "w7 w9"), Ok(word));
        assert!(next(folder.path(), "").expect_err("no logits").is_input());
    }
}
