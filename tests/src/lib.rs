//! The case table and the checks that hold every room of Dynamic Linear Attention to its neighbours.
