/** The clock of `duehook dev`, which people can turn. Other servers have none. */
import { api, ApiError, clockAhead, devClock, serverNow, type DevClock } from './api';
import { freshness, refresh } from './live';

/** A clock that runs fast is read at this interval. */
const readMs = 1000;

/** Takes the server's clock for all pages. */
function follow(clock: DevClock): void {
  const now = Date.parse(clock.now);
  const turned = Math.abs(now - serverNow()) > readMs; // or runs fast
  devClock.value = clock;
  clockAhead.value = now - Date.now();
  if (turned) refresh(); // searches by relative times have other results
}

/** Reads the clock, if the server has one. */
export async function readClock(): Promise<void> {
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

export function start(): void {
  setInterval(() => {
    if (devClock.value && freshness.value !== 'paused' && document.visibilityState === 'visible') void readClock();
  }, readMs);
}
