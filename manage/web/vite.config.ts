// Builds the console into dist/. `npm run dev` serves it from source and passes the API on to a daemon's socket, HOLDFAST_SOCKET.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type ProxyOptions } from 'vite';

const socketPath = process.env['HOLDFAST_SOCKET'] ?? '/run/holdfast.sock';
const daemon = {
  target: { socketPath, host: 'localhost', port: 80, protocol: 'http:' },
} as unknown as ProxyOptions;

export default defineConfig({
  plugins: [svelte()],
  server: { proxy: { '/api': daemon } },
  preview: { proxy: { '/api': daemon } },
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false } },
});
