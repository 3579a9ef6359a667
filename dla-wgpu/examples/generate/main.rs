//! Text from a model directory, written as it comes.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use dla_core::Model;
use dla_core::model::Call;
use dla_core::sample::{Candidates, Sampler, SamplerOptions};
use dla_text::{Stop, Tokenizer};

/// How the text is made.
struct Settings {
    sampler: SamplerOptions,
    max_tokens: usize,
    stop: Vec<String>,
}

/// Writes the text that follows `prompt`, piece by piece.
fn generate(
    folder: &Path,
    prompt: &str,
    settings: Settings,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let model = Model::load(folder)?;
    let tokenizer = Tokenizer::of(folder, model.config())?;
    let mut sampler = Sampler::new(settings.sampler)?;
    let mut stop = Stop::new(settings.stop)?;
    let mut session = model.session();
    let mut unread = tokenizer.encode(prompt)?;
    let mut decoder = tokenizer.decoder(&unread);
    unread.iter().for_each(|&id| sampler.accept(id));
    for _ in 0..settings.max_tokens {
        let reply = model.run(&mut session, &unread, &Call::default())?;
        let id = sampler.sample(&Candidates::Row(&reply.logits))?;
        sampler.accept(id);
        out.write_all(stop.push(&decoder.push(id)).as_bytes())?;
        out.flush()?;
        if stop.hit().is_some() || tokenizer.is_end(id) {
            break;
        }
        unread = vec![id];
    }
    let rest = stop.push(&decoder.finish()) + &stop.finish();
    out.write_all(rest.as_bytes())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, prompt] = &words[..] else {
        return Err("usage: generate MODEL PROMPT".into());
    };
    let settings = Settings {
        sampler: SamplerOptions {
            temperature: 0.8,
            top_p: 0.95,
            ..SamplerOptions::default()
        },
        max_tokens: 100,
        stop: vec!["\n\n".into()],
    };
    generate(folder.as_ref(), prompt, settings, &mut io::stdout())?;
    println!();
    Ok(())
}

#[cfg(test)]
#[path = "../tiny.rs"]
mod tiny;

#[cfg(test)]
mod tests {
    use super::{Settings, generate, tiny};
    use dla_core::sample::SamplerOptions;

    fn text(seed: u64, stop: &[&str]) -> String {
        let folder = tiny::model();
        let settings = Settings {
            sampler: SamplerOptions {
                seed,
                ..SamplerOptions::default()
            },
            max_tokens: 12,
            stop: stop.iter().map(ToString::to_string).collect(),
        };
        let mut text = Vec::new();
        generate(folder.path(), "w7 w9", settings, &mut text).expect("a text");
        String::from_utf8(text).expect("UTF-8")
    }

    #[test]
    fn words_follow_the_prompt_until_a_stop_string() {
        let whole = text(3, &[]);
        assert_eq!(text(3, &[]), whole);
        assert_ne!(text(4, &[]), whole);
        let third = whole.match_indices(' ').nth(2).expect("three words").0;
        let word = whole[third..].split_inclusive(' ').nth(1).expect("a word");
        let word = format!(" {}", word.trim_end());
        let first = whole.find(&word).expect("part of it");
        assert_eq!(text(3, &[&word]), whole[..first]);
    }
}
