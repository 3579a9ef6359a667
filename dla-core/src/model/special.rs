//! The ids of special tokens, as a model's files name them.

/// Ids of special tokens; what no file names is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// What a text begins with: `bos_token_id`.
    pub bos: Option<u32>,
    /// What ends a text, each of them: `eos_token_id`, one id or a list.
    pub eos: Vec<u32>,
    /// What fills sequences of a batch up: `pad_token_id`.
    pub pad: Option<u32>,
}

impl SpecialIds {
    /// These ids, and those of `other` where they are missing.
    ///
    /// ```
    /// use dla_core::model::SpecialIds;
    /// let chat = SpecialIds { eos: vec![7, 8], ..SpecialIds::default() };
    /// let base = SpecialIds { bos: Some(1), eos: vec![2], pad: None };
    /// assert_eq!(chat.or(base), SpecialIds { bos: Some(1), eos: vec![7, 8], pad: None });
    /// ```
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            bos: self.bos.or(other.bos),
            eos: if self.eos.is_empty() {
                other.eos
            } else {
                self.eos
            },
            pad: self.pad.or(other.pad),
        }
    }
}
