/** Waiting for what has to happen, with a limit that only costs time when it does not. */
import { setTimeout as pause } from 'node:timers/promises';

const limitMs = 120_000;

export async function eventually(what, holds) {
  const end = Date.now() + limitMs;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`);
    await pause(20);
  }
}

/** Waits until a topic holds so many jobs in these states. */
export const settled = (node, topic, wanted) =>
  eventually(`${topic} holds ${JSON.stringify(wanted)}`, async () => {
    const { states } = await node.call('GET', `/v1/topics/${topic}`);
    return Object.entries(wanted).every(([state, n]) => states[state] === n);
  });
