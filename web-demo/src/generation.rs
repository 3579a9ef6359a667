//! Text that a session goes on with.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::OnceLock;

use dla_core::Result;
use dla_core::sample::{Candidates, Sampler, SamplerOptions};
use dla_text::{Decoder, Stop, Tokenizer};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::fault::Fault;
use crate::loaded::Loaded;
use crate::sequence::Sequence;

/// The most tokens that a model of bytes has.
const BYTES: usize = 256;

/// The tokenizer of models of bytes, the only one of a page.
fn tokenizer() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(Tokenizer::bytes)
}

/// How tokens are picked and where the text ends.
#[derive(Debug)]
pub(crate) struct Writing {
    sampler: Sampler,
    stop: Stop,
    /// Begins with the first token, for it depends on what came before.
    decoder: Option<Decoder<'static>>,
}

/// A text that is being generated; [`Session::next`](crate::Session::next) asks for its tokens.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Generation(pub(crate) Rc<RefCell<Writing>>);

#[wasm_bindgen]
impl Generation {
    /// Draws at `temperature` (0 is greedy) among the `top_k` largest logits (0 for all) that reach the probability
    /// `top_p`, ends at any of `stop`.
    #[wasm_bindgen(constructor)]
    pub fn new(
        temperature: f32,
        top_k: u32,
        top_p: f32,
        seed: f64,
        stop: Vec<String>,
    ) -> Result<Generation, JsValue> {
        let options = SamplerOptions {
            temperature,
            top_k: top_k as usize,
            top_p,
            seed: seed as u64,
            ..SamplerOptions::default()
        };
        Ok(Self(Rc::new(RefCell::new(Writing {
            sampler: Sampler::new(options).map_err(Fault::from)?,
            stop: Stop::new(stop).map_err(Fault::from)?,
            decoder: None,
        }))))
    }

    /// No more tokens will be asked for: the text that was held back.
    pub fn finish(&self) -> String {
        let writing = &mut *self.0.borrow_mut();
        let rest = writing
            .decoder
            .as_mut()
            .map(Decoder::finish)
            .unwrap_or_default();
        writing.stop.push(&rest) + &writing.stop.finish()
    }
}

impl Writing {
    /// Picks the token after `sequence`; gives it and the text that became certain, none where tokens are not bytes.
    ///
    /// # Errors
    /// Before a sequence's first token, and for logits that cannot be drawn from.
    pub(crate) fn pick(&mut self, model: &Loaded, sequence: &Sequence) -> Result<(u32, String)> {
        let logits = sequence.logits()?;
        let id = self.sampler.sample(&Candidates::Row(logits))?;
        self.sampler.accept(id);
        if model.config.vocabulary > BYTES {
            return Ok((id, String::new()));
        }
        let new = || tokenizer().decoder(sequence.recent());
        let piece = self.decoder.get_or_insert_with(new).push(id);
        Ok((id, self.stop.push(&piece)))
    }

    /// True when the model's text ends with `id`.
    pub(crate) fn is_end(model: &Loaded, id: u32) -> bool {
        model.config.special.eos.contains(&id)
    }

    /// The stop string that ended the text.
    pub(crate) fn stopped(&self) -> Option<String> {
        self.stop.hit().map(str::to_owned)
    }
}
