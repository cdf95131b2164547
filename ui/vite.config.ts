import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// `npm run dev` shows the spans of a server that runs already.
const server = process.env.WIRESPAN_SERVER ?? "http://127.0.0.1:7979";

export default defineConfig({
  plugins: [react()],
  // The server's content policy allows no inline script or style, and no data: URL but for images.
  build: { assetsInlineLimit: 0, modulePreload: { polyfill: false }, target: "es2022" },
  server: { host: "127.0.0.1", proxy: { "/api": server, "/metrics": server, "/healthz": server } },
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/testing/setup.ts"],
    css: { modules: { classNameStrategy: "non-scoped" } },
  },
});
