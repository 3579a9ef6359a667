// What a chunk leaves meets the gradient of its own state only.
const NEAR: u32 = 0u;
