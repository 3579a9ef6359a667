//! A text that goes on where the last run of the program left it.

use std::error::Error;
use std::fs;
use std::path::Path;

use dla_core::model::{Call, ModelSession};
use dla_core::sample::{Candidates, Sampler, SamplerOptions};
use dla_core::{Model, Result};
use dla_text::Tokenizer;

/// A text in the making.
struct Story {
    model: Model,
    tokenizer: Tokenizer,
    session: ModelSession,
    sampler: Sampler,
    /// All tokens.
    ids: Vec<u32>,
    /// Those that the session has taken in.
    read: usize,
}

impl Story {
    fn new(folder: &Path, prompt: &str, options: SamplerOptions) -> Result<Self> {
        let model = Model::load(folder)?;
        let tokenizer = Tokenizer::of(folder, model.config())?;
        Ok(Self {
            session: model.session(),
            sampler: Sampler::new(options)?,
            ids: tokenizer.encode(prompt)?,
            read: 0,
            tokenizer,
            model,
        })
    }

    /// The text of the next `count` tokens; fewer where it ends.
    fn tell(&mut self, count: usize) -> Result<String> {
        let mut decoder = self.tokenizer.decoder(&self.ids);
        let mut text = String::new();
        for _ in 0..count {
            if self.has_ended() {
                break;
            }
            let unread = &self.ids[self.read..];
            unread.iter().for_each(|&id| self.sampler.accept(id));
            let reply = self
                .model
                .run(&mut self.session, unread, &Call::default())?;
            let id = self.sampler.sample(&Candidates::Row(&reply.logits))?;
            text += &decoder.push(id);
            self.read = self.ids.len();
            self.ids.push(id);
        }
        Ok(text + &decoder.finish())
    }

    /// True when the last token is one of the model's and ends the text.
    fn has_ended(&self) -> bool {
        let last = self.ids.last().filter(|_| self.read > 0);
        last.is_some_and(|&id| self.tokenizer.is_end(id))
    }

    /// Everything that the rest of the text depends on, in three files; they replace those of `to` when all are written.
    fn save(&self, to: &Path) -> std::io::Result<()> {
        let new = to.with_extension("new");
        fs::create_dir_all(&new)?;
        let ids = self.ids.iter().flat_map(|id| id.to_le_bytes());
        fs::write(new.join("ids"), ids.collect::<Vec<u8>>())?;
        fs::write(new.join("session"), self.session.save())?;
        fs::write(new.join("sampler"), self.sampler.save())?;
        if to.exists() {
            fs::remove_dir_all(to)?;
        }
        fs::rename(new, to)
    }

    /// The story that was saved; `folder` holds its model.
    fn load(folder: &Path, from: &Path) -> Result<Self, Box<dyn Error>> {
        let mut story = Self::new(folder, "", SamplerOptions::default())?;
        let ids = fs::read(from.join("ids"))?;
        let ids = ids.as_chunks().0.iter();
        story.ids = ids.map(|&id| u32::from_le_bytes(id)).collect();
        story.session.load(&fs::read(from.join("session"))?)?;
        story.sampler = Sampler::load(&fs::read(from.join("sampler"))?)?;
        story.read = usize::try_from(story.session.position())?;
        if story.read > story.ids.len() {
            return Err("the saved files are not of one text".into());
        }
        Ok(story)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, saved, prompt] = &words[..] else {
        return Err("usage: resume MODEL SAVED PROMPT".into());
    };
    let (folder, saved) = (Path::new(folder), Path::new(saved));
    let mut story = if saved.exists() {
        Story::load(folder, saved)?
    } else {
        Story::new(folder, prompt, SamplerOptions::default())?
    };
    println!("{}", story.tell(50)?);
    story.save(saved)?;
    Ok(())
}

#[cfg(test)]
#[path = "../tiny.rs"]
mod tiny;

#[cfg(test)]
mod tests {
    use super::{SamplerOptions, Story, tiny};

    #[test]
    fn the_continued_text_is_the_uninterrupted_one() {
        let model = tiny::model();
        let options = SamplerOptions {
            repetition_penalty: 1.5,
            repetition_window: 5,
            seed: 11,
            ..SamplerOptions::default()
        };
        let new = || Story::new(model.path(), "w7 w9", options).expect("a story");
        let whole = new().tell(24).expect("a text");
        let mut first = new();
        let mut text = first.tell(10).expect("a text");
        let saved = model.path().join("saved");
        first.save(&saved).expect("saved");
        drop(first);
        let mut second = Story::load(model.path(), &saved).expect("a saved story");
        text += &second.tell(14).expect("a text");
        assert_eq!(text, whole);
        let mut again = Story::load(model.path(), &saved).expect("a saved story");
        assert!(whole.ends_with(&again.tell(14).expect("a text")));
        again.save(&saved).expect("saved over the first");
        let last = Story::load(model.path(), &saved).expect("a saved story");
        assert_eq!(last.ids, again.ids);
    }
}
