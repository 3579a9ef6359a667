//! Errors as a page sees them: a JavaScript `Error` with a `kind`.

use dla_core::Error;
use wasm_bindgen::JsValue;

use crate::object::set;

/// What a call ends with when it fails.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The library's own error.
    Told(Error),
    /// Another call on the same session has not ended.
    Busy,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl Fault {
    /// The word that a page branches on.
    fn kind(&self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Told(error) if error.is_input() => "input",
            Self::Told(error) if error.is_file() => "file",
            Self::Told(error) if error.is_unsupported() => "unsupported",
            Self::Told(error) if error.is_diverged() => "diverged",
            Self::Told(_) => "device",
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Told(error) => error.to_string(),
            Self::Busy => "session: expected one call at a time, got another before its end; \
                           wait for the first"
                .into(),
        }
    }
}

impl From<Fault> for JsValue {
    fn from(fault: Fault) -> Self {
        let error = js_sys::Error::new(&fault.message());
        error.set_name("DlaError");
        set(&error, "kind", fault.kind().into());
        error.into()
    }
}
