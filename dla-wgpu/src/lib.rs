//! Dynamic Linear Attention on any GPU that WebGPU reaches.
