//! What needles are made of: words, numbers, UUIDs.

use dla_core::{Error, Result};

use crate::random::Random;

/// What a key or a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// An adjective and a noun, joined by a hyphen.
    Words,
    /// Seven digits.
    Numbers,
    /// A random UUID, version 4.
    Uuids,
}

impl std::str::FromStr for Item {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "words" => Ok(Self::Words),
            "numbers" => Ok(Self::Numbers),
            "uuids" => Ok(Self::Uuids),
            _ => Err(Error::input("niah", "item", "words|numbers|uuids", word)),
        }
    }
}

impl std::fmt::Display for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Words => "words",
            Self::Numbers => "numbers",
            Self::Uuids => "uuids",
        })
    }
}

impl Item {
    /// One of them.
    pub fn draw(self, random: &mut Random) -> String {
        match self {
            Self::Words => {
                let adjectives: Vec<_> = ADJECTIVES.split_whitespace().collect();
                let nouns: Vec<_> = NOUNS.split_whitespace().collect();
                format!("{}-{}", random.pick(&adjectives), random.pick(&nouns))
            }
            Self::Numbers => (1_000_000 + random.below(9_000_000)).to_string(),
            Self::Uuids => uuid(random),
        }
    }

    /// `count` different ones.
    pub fn draw_distinct(self, count: usize, random: &mut Random) -> Vec<String> {
        let mut items = Vec::with_capacity(count);
        while items.len() < count {
            let item = self.draw(random);
            if !items.contains(&item) {
                items.push(item);
            }
        }
        items
    }
}

/// A random UUID (RFC 9562, version 4).
fn uuid(random: &mut Random) -> String {
    let [high, low] = [(); 2].map(|()| random.below(u64::MAX));
    let high = high & !0xF000 | 0x4000;
    let low = low & !(0xC << 60) | 0x8 << 60;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    )
}

const ADJECTIVES: &str = "
amber ancient autumn azure bitter blank bold brave brief bright brisk broad bronze calm careful
cheerful clean clear clever cloudy cold coral cosy crimson crisp curious dapper daring dark deep
dim distant dry dusty eager early easy elder empty faint fair faithful famous fancy fast fierce
fine firm flat fluent fond frank free fresh frosty full gentle giant glad golden grand grateful
grave green grey handy happy hardy hasty heavy hidden hollow honest humble idle inner ivory jolly
keen kind large lasting late lavish lazy light little lively lofty lone long loud loyal lucky
magic mellow merry mighty mild misty modest mossy narrow neat new nimble noble odd old olive open
outer pale patient plain polite pretty proud pure purple quaint quick quiet rapid rare ready red
restful rich ripe rough round royal rustic sandy scarlet secret serene sharp shiny short shy
silent silver simple sleepy slender slow small smooth snowy soft solid sour spare spicy spry
stable steady steep stern still stony stout strange strong subtle sudden sunny sweet swift tall
tame tender thick thin tidy tiny tired tranquil true trusty upper vast velvet violet vivid warm
wary watchful weary wide wild windy wise witty wooden yellow young zesty";

const NOUNS: &str = "
acorn anchor anvil apple apron arch arrow ash atlas attic badge bakery balcony barley barn basin
basket bay beacon bean bear beaver bell bench berry birch blanket blossom boat bonnet book boot
bottle bowl branch bread brick bridge brook broom bucket bugle button cabin candle canoe canyon
carpet cart castle cedar cellar chair chalk cherry chest chimney cider circle cliff clock cloud
clover coat cobbler comet compass copper corner cottage cradle crane crayon creek cricket crow
crown cup curtain daisy dawn deer desert desk dock dolphin door dragon drum duck dune eagle easel
echo elm ember engine falcon farm feather fence fern ferry fiddle field finch fir flag flame
flask flint flower flute forest forge fountain fox frog garden garnet gate geyser ginger glacier
glove goat goose granite grape grove hammer harbour hare harp harvest hat hawk hazel hearth
hedge heron hill hive honey horn horse house igloo inn iris island ivy jacket jar jasmine jewel
jug kettle kite kitten ladder lake lamp lantern lark laurel leaf lemon lens letter lily lion loom
lute magnet mango maple marble market marsh meadow melon mill mint mirror mole moon moss mountain
mouse museum nest newt nutmeg oak oar oasis ocean olive onion orchard orchid otter owl oyster
paddle palace palm panda paper parcel parrot path peach pear pebble pencil pepper piano pigeon
pillow pine planet plough plum pocket pond poppy porch potter prairie prism pumpkin quail quarry
quill rabbit raft rain raven reed ribbon ridge ring river robin rocket rope rose rug sail salmon
sapphire satchel school shell shepherd ship shore sickle sketch sled slipper sparrow spoon spring
squirrel stable star statue stone stork storm straw stream summit swan table tailor teapot temple
thicket thimble thistle tiger toad torch tower trail tree trout trumpet tulip tunnel turnip
turtle valley vase village vine violin wagon walnut walrus waterfall wave well whale wheat wheel
whistle willow window winter wolf wren yacht yarn zebra";

#[cfg(test)]
mod tests {
    use super::{ADJECTIVES, Item, NOUNS};
    use crate::random::Random;
    use std::collections::HashSet;

    #[test]
    fn word_lists_hold_every_word_once() {
        for (list, least) in [(ADJECTIVES, 190), (NOUNS, 290)] {
            let words: Vec<_> = list.split_whitespace().collect();
            let distinct: HashSet<_> = words.iter().collect();
            assert_eq!(words.len(), distinct.len());
            assert!(words.len() >= least, "{}", words.len());
            let small = |w: &&str| w.bytes().all(|b| b.is_ascii_lowercase());
            assert!(words.iter().all(small));
        }
    }

    #[test]
    fn items_have_their_form() {
        let mut random = Random::of(1, 2, 3);
        for _ in 0..200 {
            let uuid = Item::Uuids.draw(&mut random);
            let lengths: Vec<_> = uuid.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12]);
            assert_eq!(uuid.as_bytes()[14], b'4');
            assert!(matches!(uuid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
            let number = Item::Numbers.draw(&mut random);
            assert!(number.len() == 7 && !number.starts_with('0'));
            assert_eq!(Item::Words.draw(&mut random).split('-').count(), 2);
        }
        let items = Item::Numbers.draw_distinct(50, &mut random);
        assert_eq!(items.iter().collect::<HashSet<_>>().len(), 50);
    }
}
