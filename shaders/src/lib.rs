//! The WGSL passes of Dynamic Linear Attention and the list of their parts, entry points and bindings.
