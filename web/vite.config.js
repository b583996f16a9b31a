import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { defineConfig } from 'vite';

/** What the built files are made of; internal/node/dashboard's tests know it, too. */
const sources = ['docs.html', 'index.html', 'package-lock.json', 'package.json', 'public', 'src', 'tsconfig.json', 'vite.config.js'];

/** All files at or below a path, in the order of their names' bytes. */
function files(path) {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path)
    .sort((a, b) => (a < b ? -1 : 1))
    .flatMap((name) => files(`${path}/${name}`));
}

/** Writes down which sources were built, so that a test without Node.js can tell stale files. */
function stamp() {
  let directory;
  return {
    name: 'stamp',
    apply: 'build',
    configResolved: ({ build }) => (directory = build.outDir),
    closeBundle() {
      const hash = createHash('sha256');
      for (const file of sources.flatMap(files)) hash.update(file).update('\0').update(readFileSync(file)).update('\0');
      writeFileSync(`${directory}/../sources.sha256`, `${hash.digest('hex')}\n`);
    },
  };
}

/** Packs the built files: the binary holds them as gzip, and most browsers get them so. */
function pack() {
  let directory;
  return {
    name: 'pack',
    apply: 'build',
    configResolved: ({ build }) => (directory = build.outDir),
    closeBundle() {
      for (const file of files(directory)) {
        writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
        rmSync(file);
      }
    },
  };
}

export default defineConfig({
  build: {
    outDir: '../internal/node/dashboard/dist',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0, // the pages' security policy allows no data: URLs
    modulePreload: { polyfill: false },
    rolldownOptions: { input: ['index.html', 'docs.html'] },
  },
  server: { proxy: { '/v1': 'http://127.0.0.1:7788', '/metrics': 'http://127.0.0.1:7788' } },
  plugins: [stamp(), pack()],
});
