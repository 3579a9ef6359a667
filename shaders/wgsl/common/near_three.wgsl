// What a chunk leaves also meets the gradients of the states before and after its own, as a gate's gradient needs it.
const NEAR: u32 = 1u;
