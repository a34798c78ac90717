import { readFileSync } from "node:fs";
import { join } from "node:path";

import { defineConfig, type Connect, type PreviewServer, type ViteDevServer } from "vite";

import { answer } from "./answers.ts";

// Below a prefix, as behind a proxy: an address that forgets it is not found here.
const BASE = "/airflow/";
const BUNDLE = join(import.meta.dirname, "../../plugin/page/www/interlock.js");

const routes: Connect.NextHandleFunction = (request, response, next) => {
  const path = request.url ?? "";
  if (path === `${BASE}www/interlock.js` || path.startsWith(`${BASE}www/interlock.js?`)) {
    response.writeHead(200, { "content-type": "text/javascript" }).end(readFileSync(BUNDLE));
  } else if (path.startsWith(`${BASE}interlock-ui/`)) {
    answer(path.slice(`${BASE}interlock-ui`.length), request, response);
  } else if (path.startsWith(`${BASE}api/v2/`)) {
    response.writeHead(200, { "content-type": "application/json" }).end("{}");
  } else next();
};

function serve(server: ViteDevServer | PreviewServer): void {
  server.middlewares.use(routes);
}

export default defineConfig({
  root: import.meta.dirname,
  base: BASE,
  server: { host: "127.0.0.1", port: Number(process.env["PORT"] ?? 5178), strictPort: true },
  build: { outDir: "../.harness", emptyOutDir: true, target: "es2022" },
  plugins: [{ name: "interlock-answers", configureServer: serve, configurePreviewServer: serve }],
});
