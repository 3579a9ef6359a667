//! A model as a page holds it.

use std::rc::Rc;

use dla_core::checkpoint::Checkpoint;
use js_sys::{Object, Promise};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::future_to_promise;

use crate::fault::Fault;
use crate::incoming::Incoming;
use crate::loaded::Loaded;
use crate::sequence::Sequence;
use crate::session::Session;
use crate::settings::Settings;

/// A model; sessions are its sequences.
#[wasm_bindgen]
#[derive(Clone, Debug)]
pub struct Model(Rc<Loaded>);

#[wasm_bindgen]
impl Model {
    /// Reads a model from the text of config.json and the bytes of model.safetensors; `backend` is auto, gpu or cpu.
    /// Resolves to a `Model`.
    pub fn load(config: &str, weights: Incoming, backend: String) -> Promise {
        let file = ("model.safetensors".to_owned(), weights.into_bytes());
        let checkpoint = Checkpoint::from_bytes(config, vec![file]);
        future_to_promise(async move {
            let checkpoint = Rc::new(checkpoint.map_err(Fault::from)?);
            let settings = Settings::default();
            let model = Loaded::open(checkpoint, &settings, &backend).await;
            Ok(Self(Rc::new(model.map_err(Fault::from)?)).into())
        })
    }

    /// How many tokens the model of a config.json has.
    #[wasm_bindgen(js_name = vocabularyOf)]
    pub fn vocabulary_of(config: &str) -> Result<usize, JsValue> {
        let checkpoint = Checkpoint::from_bytes(config, Vec::new()).map_err(Fault::from)?;
        Ok(checkpoint.config().vocabulary)
    }

    /// The same weights under other settings of the memory, on the same backend; absent ones are the checkpoint's.
    /// Resolves to a `Model`.
    #[wasm_bindgen(js_name = withSettings)]
    pub fn with_settings(
        &self,
        tau_offset: Option<f32>,
        capacity: Option<u32>,
        schedule: Option<String>,
    ) -> Promise {
        let settings = Settings {
            tau_offset: tau_offset.unwrap_or(0.0),
            capacity: capacity.map(|capacity| capacity as usize),
            schedule,
        };
        let model = self.0.clone();
        future_to_promise(async move {
            let changed = model.with(&settings).await.map_err(Fault::from)?;
            Ok(Self(Rc::new(changed)).into())
        })
    }

    /// A sequence before its first token. Resolves to a `Session`.
    pub fn session(&self) -> Promise {
        let model = self.0.clone();
        future_to_promise(async move {
            let sequence = Sequence::new(&model).await.map_err(Fault::from)?;
            Ok(Session::new(model, sequence).into())
        })
    }

    /// What the model is and what runs it.
    pub fn info(&self) -> Object {
        self.0.info()
    }
}
