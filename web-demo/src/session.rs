//! A session as a page holds it: one call at a time, and none that holds it borrowed while it waits.

use std::cell::RefCell;
use std::rc::Rc;

use dla_core::Result;
use js_sys::{Array, Promise, Uint8Array};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::future_to_promise;

use crate::fault::Fault;
use crate::generation::{Generation, Writing};
use crate::loaded::Loaded;
use crate::object::object;
use crate::sequence::{Asked, Sequence};

/// A sequence of a model. Calls resolve one after the other: one that comes before the last has ended is
/// refused as busy.
#[wasm_bindgen]
#[derive(Clone, Debug)]
pub struct Session {
    model: Rc<Loaded>,
    /// Empty while a call has it.
    place: Rc<RefCell<Option<Sequence>>>,
}

/// The sequence, taken out for a call and put back at its end.
struct Held {
    place: Rc<RefCell<Option<Sequence>>>,
    sequence: Option<Sequence>,
}

impl Held {
    fn get(&mut self) -> Result<&mut Sequence, Fault> {
        self.sequence.as_mut().ok_or(Fault::Busy)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.place.borrow_mut() = self.sequence.take();
    }
}

impl Session {
    pub(crate) fn new(model: Rc<Loaded>, sequence: Sequence) -> Self {
        let place = Rc::new(RefCell::new(Some(sequence)));
        Self { model, place }
    }

    fn take(&self) -> Result<Held, Fault> {
        let sequence = self.place.borrow_mut().take().ok_or(Fault::Busy)?;
        Ok(Held {
            place: self.place.clone(),
            sequence: Some(sequence),
        })
    }

    /// A call that holds the sequence from now on.
    fn call<F>(&self, run: impl FnOnce(Rc<Loaded>, Held) -> F) -> Promise
    where
        F: Future<Output = Result<JsValue, Fault>> + 'static,
    {
        match self.take() {
            Err(busy) => Promise::reject(&busy.into()),
            Ok(held) => {
                let call = run(self.model.clone(), held);
                future_to_promise(async move { call.await.map_err(JsValue::from) })
            }
        }
    }
}

#[wasm_bindgen]
impl Session {
    /// Takes token ids in. Resolves to what every layer and head did with them: an object of `first`, `tokens`,
    /// `layers`, `heads`, `ids`, `scores`, `events` and, if asked for, `bits` and `lambda`.
    pub fn feed(&self, ids: Vec<u32>, bits: bool, lambda: bool) -> Promise {
        self.call(move |model, mut held| async move {
            let asked = Asked { bits, lambda };
            let piece = held.get()?.feed(&model, &ids, asked).await?;
            Ok(piece.into())
        })
    }

    /// Picks a token and takes it in. Resolves to `id`, `text`, `states`, with `lambda` if asked for, `end`, true where
    /// the token ends the text, and `stop`, the stop string that ended it or null.
    pub fn next(&self, generation: &Generation, lambda: bool) -> Promise {
        let writing = generation.0.clone();
        self.call(move |model, mut held| async move {
            let sequence = held.get()?;
            let (id, text) = writing.borrow_mut().pick(&model, sequence)?;
            let asked = Asked {
                bits: false,
                lambda,
            };
            let states = sequence.feed(&model, &[id], asked).await?;
            let stop = writing.borrow().stopped();
            let token = object([
                ("id", id.into()),
                ("text", text.into()),
                ("states", states.into()),
                ("end", Writing::is_end(&model, id).into()),
                ("stop", stop.map_or(JsValue::NULL, Into::into)),
            ]);
            Ok(token.into())
        })
    }

    /// The live states: an array of layers of heads of states, each with `id`, `start`, `n`, `info`, `density`.
    pub fn states(&self) -> Result<Array, JsValue> {
        let mut held = self.take()?;
        Ok(held.get()?.states(&self.model))
    }

    /// Tokens taken in.
    pub fn position(&self) -> Result<f64, JsValue> {
        let mut held = self.take()?;
        Ok(held.get()?.position() as f64)
    }

    /// Resolves to everything that later tokens depend on, as bytes.
    pub fn save(&self) -> Promise {
        self.call(|_, mut held| async move {
            let bytes = held.get()?.save().await?;
            Ok(Uint8Array::from(&bytes[..]).into())
        })
    }

    /// Goes on where `save` was called, or where any other backend saved a session of the same model; a refusal changes
    /// nothing.
    pub fn restore(&self, bytes: Vec<u8>) -> Promise {
        self.call(|model, mut held| async move {
            held.get()?.restore(&model, &bytes).await?;
            Ok(JsValue::UNDEFINED)
        })
    }

    /// Forgets everything.
    pub fn reset(&self) -> Promise {
        self.call(|model, mut held| async move {
            held.get()?.reset(&model).await?;
            Ok(JsValue::UNDEFINED)
        })
    }
}
