//! Plain JavaScript objects, which can be posted from a worker to its page.

use js_sys::{Object, Reflect};
use wasm_bindgen::JsValue;

/// An object with these entries.
pub(crate) fn object<const N: usize>(entries: [(&str, JsValue); N]) -> Object {
    let object = Object::new();
    for (name, value) in entries {
        set(&object, name, value);
    }
    object
}

/// Adds an entry to an object of ours, which takes any.
pub(crate) fn set(object: &Object, name: &str, value: JsValue) {
    let taken = Reflect::set(object, &name.into(), &value);
    debug_assert!(taken.is_ok(), "{name}");
}
