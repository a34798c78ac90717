import { defineConfig } from "vitest/config";

// One browser and one server for all: they run one after the other.
export default defineConfig({
  test: {
    include: [process.env["PICTURES"] ? "browser/pictures.ts" : "browser/**/*.test.ts"],
    environment: "node",
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
