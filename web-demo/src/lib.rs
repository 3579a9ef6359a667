//! Dynamic Linear Attention in a browser page.
