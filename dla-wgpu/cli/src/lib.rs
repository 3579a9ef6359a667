//! The dla command: run, inspect and measure Dynamic Linear Attention.
