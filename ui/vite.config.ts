import { defineConfig } from "vitest/config";

// Airflow hands these over as members of globalThis (its ui/src/main.tsx), so that a page has one React, one
// router and one theme. Whatever else is imported becomes part of the bundle.
const HANDED_OVER = {
  react: "React",
  "react/jsx-runtime": "ReactJSXRuntime",
  "react-dom": "ReactDOM",
  "react-router-dom": "ReactRouterDOM",
  "@chakra-ui/react": "ChakraUI",
};

export default defineConfig({
  build: {
    outDir: "../plugin/page/www",
    emptyOutDir: false,
    copyPublicDir: false,
    // Airflow 3.3's own bundle asks for no older browser.
    target: "es2022",
    lib: { entry: "src/main.ts", formats: ["iife"], name: "interlockBundle", fileName: () => "interlock.js" },
    rolldownOptions: { external: Object.keys(HANDED_OVER), output: { globals: HANDED_OVER } },
    chunkSizeWarningLimit: 150,
    reportCompressedSize: false,
  },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
