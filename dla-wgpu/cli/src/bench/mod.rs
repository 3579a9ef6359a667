//! `dla bench`: timings by the device's clock, with bytes and operations counted.

mod call;
mod ceiling;
mod gradients;
pub mod model;
pub mod op;
mod preset;
pub mod train;

use std::time::Duration;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Roughly normal numbers, cheap and the same on every machine.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        let mut sum = 0.0;
        for _ in 0..4 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            sum += (self.0 >> 40) as f32 / (1u64 << 24) as f32;
        }
        (sum - 2.0) * 3f32.sqrt()
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A number of `unit`s with the prefix that leaves it at least 1.
fn scaled(number: f64, unit: &str) -> String {
    let prefixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let fits = prefixes.into_iter().find(|(size, _)| number >= *size);
    let (size, prefix) = fits.unwrap_or((1.0, ""));
    format!("{:.2} {prefix}{unit}", number / size)
}

#[cfg(test)]
mod tests {
    use super::scaled;

    #[test]
    fn numbers_are_told_in_fitting_units() {
        assert_eq!(scaled(3.2e12, "B/s"), "3.20 TB/s");
        assert_eq!(scaled(4.5e7, "FLOP/s"), "45.00 MFLOP/s");
        assert_eq!(scaled(0.0, "B"), "0.00 B");
    }
}
