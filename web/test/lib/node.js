/** A duehook of its own for a test, on a free port, with a new data directory. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export const binary = process.env.DUEHOOK ?? new URL('../../../bin/duehook', import.meta.url).pathname;
const startLimitMs = 120_000;

/** Starts the program. It ends with the tests of its file at the latest, also if one of them fails before it stops it. */
function start(args, stdio) {
  const node = spawn(binary, args, { stdio });
  const kill = () => node.kill('SIGKILL');
  process.once('exit', kill);
  const exited = new Promise((resolve) => node.once('exit', resolve)).then(() => process.off('exit', kill));
  return { node, exited };
}

/** Starts a node; data is the directory of one that was killed. */
export async function startNode(flags = [], data) {
  const dir = data ?? (await mkdtemp(join(tmpdir(), 'duehook-web-')));
  const args = ['serve', '--addr', '127.0.0.1:0', '--allow-cidrs', '127.0.0.0/8', '--data-dir', dir, '--log-format', 'json', ...flags];
  const { node, exited } = start(args, ['ignore', 'ignore', 'pipe']);
  const base = await served(node);
  return {
    base,
    dir,
    /** Ends the process at once. Its data stays. */
    async kill() {
      node.kill('SIGKILL');
      await exited;
    },
    call: caller(base),
    async stop() {
      node.kill('SIGTERM');
      await exited;
      await rm(dir, { recursive: true });
    },
  };
}

/** Starts `duehook dev`, whose clock people can turn. */
export async function startDev() {
  const { node, exited } = start(['dev', '--addr', '127.0.0.1:0'], ['ignore', 'pipe', 'inherit']);
  const base = await within(node, (found) =>
    createInterface(node.stdout).on('line', (line) => {
      const [, address] = /^duehook dev \S+: (\S+)/.exec(line) ?? [];
      if (address) found(address);
    }),
  );
  return {
    base,
    call: caller(base),
    async stop() {
      node.kill('SIGTERM');
      await exited;
    },
  };
}

/** Calls the API of a node; what it refuses is an error. */
const caller =
  (base) =>
  async (method, path, body, headers = {}) => {
    const answer = await fetch(base + path, {
      method,
      headers: body === undefined ? headers : { 'Content-Type': 'application/json', ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };

/** What a node that starts writes, unless it ends before. */
function within(node, look, lines = []) {
  return new Promise((resolve, reject) => {
    const limit = setTimeout(() => reject(new Error(`duehook does not serve:\n${lines.join('\n')}`)), startLimitMs);
    node.once('exit', (code) => reject(new Error(`duehook ended with ${code}:\n${lines.join('\n')}`)));
    node.once('error', reject);
    look((found) => {
      clearTimeout(limit);
      resolve(found);
    });
  });
}

/** The address of the API, which the node logs when it serves. */
function served(node) {
  const lines = [];
  const look = (found) =>
    createInterface(node.stderr).on('line', (line) => {
      lines.push(line);
      const { api } = JSON.parse(line);
      if (api) found(api);
    });
  return within(node, look, lines);
}
