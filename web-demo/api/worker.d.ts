/** The worker of `Dla.worker`, for pages that make it themselves: `new Worker(…, { type: "module" })`. */
export {};
