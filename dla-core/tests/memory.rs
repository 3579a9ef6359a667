//! The memory that a prompt takes, counted by the allocator: of a whole process, so each test has its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use dla_core::model::{Call, DlaConfig, ModelConfig, Rows, SLICE};
use dla_core::{Config, Model};

#[expect(dead_code, reason = "two models of several are enough here")]
#[path = "model/models.rs"]
mod models;

/// Counts the bytes that are held, and the most there were.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// Everything is handed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that a prompt of so many tokens takes beside what was held before.
fn peak(model: &Model, tokens: usize, rows: Rows) -> usize {
    let ids = vec![7; tokens];
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let call = Call {
        logits: rows,
        ..Call::default()
    };
    let reply = model.run(&mut model.session(), &ids, &call);
    assert!(!reply.expect("valid ids").logits.is_empty());
    MOST.load(Ordering::Relaxed) - before
}

#[test]
fn kind_50_a_prompt_takes_as_much_memory_as_a_slice_of_it() {
    for plain in [models::mamba2().0, models::gated_delta().0] {
        let operator = Config::new(plain.backbone());
        let dla = Some(DlaConfig {
            capacity: 4,
            operator,
        });
        let config = ModelConfig { dla, ..plain };
        let model = Model::build(&config, &mut models::RandomWeights::default());
        let model = model.expect("weights for everything");
        let [two, many] = [2, 40].map(|slices| peak(&model, slices * SLICE, Rows::Last));
        assert!(
            many < two + two / 4,
            "{}: {two} bytes for 2 slices, {many} for 40",
            config.family
        );
        // All logits are what was asked for, and nothing else grows.
        let all = peak(&model, 40 * SLICE, Rows::All);
        let logits = 40 * SLICE * config.vocabulary * size_of::<f32>();
        assert!(all < many + logits + logits / 4, "{all} with all logits");
    }
}
