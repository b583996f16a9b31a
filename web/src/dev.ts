/** The clock of `duehook dev`, which people can turn. Other servers have none. */
import { effect } from '@preact/signals';
import { api, ApiError, caller, clockAhead, devClock, type DevClock } from './api';
import { freshness, refresh } from './live';

/** A clock that runs fast is read at this interval. */
const readMs = 1000;

/** Takes the server's clock for all pages. */
function follow(clock: DevClock): void {
  const ahead = Date.parse(clock.now) - Date.now();
  const turned = Math.abs(ahead - clockAhead.peek()) > readMs;
  devClock.value = clock;
  clockAhead.value = ahead;
  if (turned) refresh(); // searches by relative times have other results
}

async function read(): Promise<void> {
  try {
    follow(await api.devClock());
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    // A server without such a clock, or one that does not answer: the pages show that.
  }
}

/** Changes the clock; what became due has happened when it returns. */
export async function turn(change: { advance: string } | { to: string } | { speed: number } | { frozen: boolean }): Promise<number> {
  const clock = await api.turnClock(change);
  follow(clock);
  return clock.attempts ?? 0;
}

/** Asks once whether the server has such a clock. A server with keys has none. */
export function start(): void {
  effect(() => {
    if (caller.value?.key === null && devClock.peek() === undefined) void read();
  });
  setInterval(() => {
    if (devClock.value && freshness.value !== 'paused' && document.visibilityState === 'visible') void read();
  }, readMs);
}
