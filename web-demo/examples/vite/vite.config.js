import { defineConfig } from "vite";

export default defineConfig({
    // Modules of a dependency that load files beside themselves are to stay where they are.
    optimizeDeps: { exclude: ["dla-web"] },
    base: "./",
});
