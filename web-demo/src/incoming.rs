//! A file on its way into memory, piece by piece.

use dla_core::Error;
use js_sys::Uint8Array;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::fault::Fault;

/// The bytes of a file as they arrive. The only copy: pieces are written where the whole will lie.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Incoming {
    bytes: Vec<u8>,
}

#[wasm_bindgen]
impl Incoming {
    /// Room for `expected` bytes; fewer or more may come.
    #[wasm_bindgen(constructor)]
    pub fn new(expected: f64) -> Result<Incoming, JsValue> {
        let mut incoming = Self::default();
        incoming.reserve(expected as usize)?;
        Ok(incoming)
    }

    /// Adds a piece at the end.
    pub fn push(&mut self, piece: &Uint8Array) -> Result<(), JsValue> {
        let (at, len) = (self.bytes.len(), piece.length() as usize);
        self.reserve(len)?;
        self.bytes.resize(at + len, 0);
        piece.copy_to(&mut self.bytes[at..]);
        Ok(())
    }

    fn reserve(&mut self, more: usize) -> Result<(), Fault> {
        let short = self.bytes.len() + more > self.bytes.capacity();
        if short && self.bytes.try_reserve_exact(more).is_err() {
            let expected = "a file that fits into the memory of a page";
            let got = format!("{more} bytes more than {}", self.bytes.len());
            return Err(Error::unsupported("load", "model.safetensors", expected, got).into());
        }
        Ok(())
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
