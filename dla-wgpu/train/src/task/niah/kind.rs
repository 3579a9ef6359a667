//! The eight kinds of needles in haystacks.

use dla_core::{Error, Result};

use super::words::Item;

/// What needles lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Haystack {
    /// One line of short sentences, again and again.
    Noise,
    /// Sentences of the texts.
    Text,
    /// Other needles.
    Needles,
}

/// The kinds of RULER (arXiv 2404.06654), under its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One needle in noise.
    Single1,
    /// One needle in text.
    Single2,
    /// One needle in text, its value a UUID.
    Single3,
    /// Four needles in text, one asked for.
    Multikey1,
    /// One needle among others only.
    Multikey2,
    /// One needle among others only, keys and values UUIDs.
    Multikey3,
    /// One key with four values in text.
    Multivalue,
    /// Four needles in text, all asked for.
    Multiquery,
}

/// What a kind's example is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// What the needles lie in.
    pub haystack: Haystack,
    /// What keys are.
    pub keys: Item,
    /// What values are.
    pub values: Item,
    /// Different keys.
    pub needles: usize,
    /// Values of each key.
    pub values_per_key: usize,
    /// Keys that are asked for.
    pub asked: usize,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Single1,
        Self::Single2,
        Self::Single3,
        Self::Multikey1,
        Self::Multikey2,
        Self::Multikey3,
        Self::Multivalue,
        Self::Multiquery,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single1 => "single_1",
            Self::Single2 => "single_2",
            Self::Single3 => "single_3",
            Self::Multikey1 => "multikey_1",
            Self::Multikey2 => "multikey_2",
            Self::Multikey3 => "multikey_3",
            Self::Multivalue => "multivalue",
            Self::Multiquery => "multiquery",
        }
    }

    /// What its example is made of.
    pub fn recipe(self) -> Recipe {
        let single = Recipe {
            haystack: Haystack::Text,
            keys: Item::Words,
            values: Item::Numbers,
            needles: 1,
            values_per_key: 1,
            asked: 1,
        };
        let among = Recipe {
            haystack: Haystack::Needles,
            ..single
        };
        match self {
            Self::Single1 => Recipe {
                haystack: Haystack::Noise,
                ..single
            },
            Self::Single2 => single,
            Self::Single3 => Recipe {
                values: Item::Uuids,
                ..single
            },
            Self::Multikey1 => Recipe {
                needles: 4,
                ..single
            },
            Self::Multikey2 => among,
            Self::Multikey3 => Recipe {
                keys: Item::Uuids,
                values: Item::Uuids,
                ..among
            },
            Self::Multivalue => Recipe {
                values_per_key: 4,
                ..single
            },
            Self::Multiquery => Recipe {
                needles: 4,
                asked: 4,
                ..single
            },
        }
    }
}

impl std::str::FromStr for Kind {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == word);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join("|");
            Error::input("niah", "kind", names, word)
        })
    }
}
