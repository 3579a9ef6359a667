//! The ids of special tokens: generation_config.json, then config.json.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::json::{self, Fields};
use crate::error::Result;
use crate::file;
use crate::model::SpecialIds;

/// What Hugging Face's models keep beside config.json for generation.
const GENERATION: &str = "generation_config.json";
/// A model's settings.
const CONFIG: &str = "config.json";

impl SpecialIds {
    /// The ids that a model directory names: each from generation_config.json, else from config.json; either file
    /// may be missing. `null` and an empty list name none.
    ///
    /// # Errors
    /// For a file that cannot be read, and anything but ids below `vocabulary`; the error names file and key.
    pub fn open(folder: &Path, vocabulary: usize) -> Result<Self> {
        let config = read(folder, CONFIG, vocabulary)?;
        Ok(generation(folder, vocabulary)?.or(config))
    }
}

/// Those of generation_config.json; none without the file.
pub(super) fn generation(folder: &Path, vocabulary: usize) -> Result<SpecialIds> {
    read(folder, GENERATION, vocabulary)
}

fn read(folder: &Path, name: &'static str, vocabulary: usize) -> Result<SpecialIds> {
    let path = folder.join(name);
    if !path.exists() {
        return Ok(SpecialIds::default());
    }
    let object = json::parse(name, &file::read_text("load", &path)?)?;
    special_ids(&Fields::of(name, &object), vocabulary)
}

/// The ids in `fields`.
pub(super) fn special_ids(fields: &Fields<'_>, vocabulary: usize) -> Result<SpecialIds> {
    Ok(SpecialIds {
        bos: fields.id("bos_token_id", vocabulary)?,
        eos: fields.ids("eos_token_id", vocabulary)?,
        pad: fields.id("pad_token_id", vocabulary)?,
    })
}

/// Adds the ids to config.json.
pub(super) fn add(object: &mut Map<String, Value>, ids: &SpecialIds) {
    let eos = match ids.eos[..] {
        [] => None,
        [id] => Some(json!(id)),
        _ => Some(json!(ids.eos)),
    };
    let (bos, pad) = (ids.bos.map(Value::from), ids.pad.map(Value::from));
    for (key, id) in [
        ("bos_token_id", bos),
        ("eos_token_id", eos),
        ("pad_token_id", pad),
    ] {
        if let Some(id) = id {
            object.insert(key.into(), id);
        }
    }
}
