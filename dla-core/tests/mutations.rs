//! Golden files and saved sessions, mutated thousands of times: everything that reads files from
//! strangers answers Ok or Err, never with a panic or with memory that the file's size does not justify.
#![cfg(feature = "checkpoint")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::generate::{self, Random};
use common::golden;
use dla_core::checkpoint::Checkpoint;
use dla_core::model::Rows;
use dla_core::session::{seal, unseal};
use dla_core::{Backbone, Config, Dims, Model, Schedule, Session};

/// The system's allocator, which notes the largest request.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// The most that any request may ask for: these files are below 200 KB.
const MOST: usize = 8 << 20;

const MODELS: [&str; 2] = ["mamba2_groups", "gdn_fla"];

/// Values that readers of sizes get wrong.
const NASTY: [u64; 10] = [
    0,
    1,
    7,
    0xff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    u64::MAX - 7,
    u64::MAX,
];

fn below(random: &mut Random, n: usize) -> usize {
    ((random.uniform() * n as f64) as usize).min(n.saturating_sub(1))
}

/// One fault of a random kind; `dense` says how many of the first bytes matter most.
fn mutate(random: &mut Random, good: &[u8], dense: usize) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let dense = dense.min(bytes.len());
    let at = match random.uniform() < 0.9 {
        true => below(random, dense),
        false => below(random, bytes.len()),
    };
    match below(random, 7) {
        0 => bytes[at] ^= 1 << below(random, 8),
        1 => bytes.truncate(at),
        2 => bytes[at] = (random.uniform() * 256.0) as u8,
        3 => drop(bytes.remove(at)),
        4 => bytes.insert(at, (random.uniform() * 256.0) as u8),
        5 => {
            let word = NASTY[below(random, NASTY.len())].to_le_bytes();
            let wide = [4, 8][below(random, 2)].min(bytes.len() - at);
            bytes[at..at + wide].copy_from_slice(&word[..wide]);
        }
        _ => {
            let (from, len) = (below(random, dense), 1 + below(random, 40));
            let end = (from + len).min(dense);
            let copy = bytes[from..end].to_vec();
            let end = (at + copy.len()).min(bytes.len());
            bytes.splice(at..end, copy);
        }
    }
    bytes
}

/// The same of a saved session, whose checksum mostly follows, so that what lies behind it is reached.
fn mutate_saved(random: &mut Random, good: &[u8], dense: usize) -> Vec<u8> {
    if random.uniform() < 0.1 {
        return mutate(random, good, dense);
    }
    let body = unseal("session", good).expect("saved bytes");
    seal(mutate(random, body, dense))
}

/// Swaps two numbers or two names of a JSON text, or puts a nasty number for one.
fn mutate_json(random: &mut Random, text: &str) -> String {
    let words = |is: fn(char) -> bool| -> Vec<(usize, usize)> {
        let mut words = Vec::new();
        let mut start = None;
        for (at, c) in text.char_indices().chain([(text.len(), '\0')]) {
            match (is(c), start) {
                (true, None) => start = Some(at),
                (false, Some(from)) => {
                    words.push((from, at));
                    start = None;
                }
                _ => {}
            }
        }
        words
    };
    let numbers = words(|c| c.is_ascii_digit());
    let names = words(|c| c.is_ascii_alphabetic() || c == '_');
    let swapped = |a: (usize, usize), b: (usize, usize)| {
        let (a, b) = if a.0 <= b.0 { (a, b) } else { (b, a) };
        if a.1 > b.0 {
            return text.to_owned();
        }
        let part = |range: std::ops::Range<usize>| &text[range];
        [
            part(0..a.0),
            part(b.0..b.1),
            part(a.1..b.0),
            part(a.0..a.1),
            part(b.1..text.len()),
        ]
        .concat()
    };
    let mut pick = |from: &[(usize, usize)]| from[below(random, from.len())];
    match pick(&numbers).0 % 3 {
        0 => swapped(pick(&numbers), pick(&numbers)),
        1 => swapped(pick(&names), pick(&names)),
        _ => {
            let (start, end) = pick(&numbers);
            let nasty = NASTY[below(random, NASTY.len())];
            format!("{}{nasty}{}", &text[..start], &text[end..])
        }
    }
}

fn read(name: &str) -> (String, Vec<u8>) {
    let folder = golden("model").join(name);
    let config = fs::read_to_string(folder.join("config.json")).expect("a golden file");
    let weights = fs::read(folder.join("model.safetensors")).expect("a golden file");
    (config, weights)
}

/// Through the whole loader; true where a model came out.
fn loads(config: &str, weights: Vec<u8>) -> bool {
    let checkpoint = Checkpoint::from_bytes(config, vec![("weights".to_owned(), weights)]);
    let Ok(checkpoint) = checkpoint else {
        return false;
    };
    checkpoint.parameters();
    checkpoint.config().state_bytes();
    checkpoint.model().is_ok()
}

fn header_len(weights: &[u8]) -> usize {
    8 + u64::from_le_bytes(weights[..8].try_into().expect("eight bytes")) as usize
}

fn assert_modest(what: &str) {
    let largest = LARGEST.swap(0, Ordering::Relaxed);
    assert!(largest <= MOST, "{what}: a request for {largest} bytes");
}

// One test, so that no other one's memory is counted.
#[test]
fn mutated_files_are_answered_and_cost_little() {
    let mut random = Random(11);
    for name in MODELS {
        let (config, weights) = read(name);
        assert!(loads(&config, weights.clone()), "{name} itself");
        weights_in(&mut random, name, &config, &weights);
        configs_of(&mut random, name, &config, &weights);
        model_sessions_of(&mut random, name, &config, &weights);
    }
    sessions(&mut random);
}

fn weights_in(random: &mut Random, name: &str, config: &str, weights: &[u8]) {
    let header = header_len(weights);
    let (mut accepted, text) = (0, String::from_utf8_lossy(&weights[8..header]).into_owned());
    for round in 0..1500 {
        let bytes = if round % 3 == 0 {
            let text = mutate_json(random, &text);
            let length = (text.len() as u64).to_le_bytes();
            [&length[..], text.as_bytes(), &weights[header..]].concat()
        } else {
            mutate(random, weights, header)
        };
        accepted += usize::from(loads(config, bytes));
        assert_modest(&format!("{name}, weights, round {round}"));
    }
    // Flips in the numbers themselves are numbers too.
    assert!((1..1000).contains(&accepted), "{name}: {accepted} accepted");
}

fn configs_of(random: &mut Random, name: &str, config: &str, weights: &[u8]) {
    for round in 0..1500 {
        let text = if round % 2 == 0 {
            mutate_json(random, config)
        } else {
            let bytes = mutate(random, config.as_bytes(), config.len());
            String::from_utf8_lossy(&bytes).into_owned()
        };
        loads(&text, weights.to_vec());
        assert_modest(&format!("{name}, config, round {round}: {text}"));
    }
}

fn model_sessions_of(random: &mut Random, name: &str, config: &str, weights: &[u8]) {
    let files = vec![("weights".to_owned(), weights.to_vec())];
    let model: Model = Checkpoint::from_bytes(config, files)
        .and_then(|checkpoint| checkpoint.model())
        .expect("a golden model");
    let mut session = model.session();
    let prompt = model.prefill(&mut session, &[1, 2, 3], Rows::Last);
    prompt.expect("three ids");
    let good = session.save();
    LARGEST.store(0, Ordering::Relaxed);
    for round in 0..1000 {
        let bytes = mutate_saved(random, &good, good.len());
        let before = session.clone();
        match session.load(&bytes) {
            Ok(()) => assert!(
                session.save() == bytes,
                "{name}, session, round {round}: read otherwise"
            ),
            Err(error) => {
                assert!(error.is_file(), "{name}, session, round {round}: {error}");
                assert_eq!(
                    session.save(),
                    before.save(),
                    "a refused file changes nothing"
                );
            }
        }
        assert_modest(&format!("{name}, session, round {round}"));
    }
}

fn sessions(random: &mut Random) {
    let dims = Dims {
        batch: 2,
        tokens: 12,
        heads: 2,
        groups: 1,
        key_dim: 3,
        value_dim: 2,
        capacity: 5,
    };
    for schedule in [
        Schedule::Dynamic,
        Schedule::Fenwick,
        Schedule::Fixed { block: 3 },
    ] {
        let config = Config {
            schedule,
            ..Config::new(Backbone::Decay)
        };
        let case = generate::case(dims, config, 0.7, 5).cast::<f32>();
        let mut session = Session::<f32>::new(dims, config).expect("sizes");
        session.feed(12, &case.inputs()).expect("a valid case");
        let good = session.save();
        LARGEST.store(0, Ordering::Relaxed);
        for round in 0..2000 {
            let bytes = mutate_saved(random, &good, 80);
            match Session::<f32>::load(&bytes) {
                Ok(loaded) => assert!(
                    loaded.save() == bytes,
                    "{schedule:?}, round {round}: read otherwise"
                ),
                Err(error) => assert!(error.is_file(), "{schedule:?}, round {round}: {error}"),
            }
            assert_modest(&format!("{schedule:?}, session, round {round}"));
        }
    }
}
