/**
 * Keeps pages up to date: each page names its data, and every refresh loads it again. A refresh follows
 * an event of the server's stream, and happens periodically in any case.
 */
import { computed, effect, signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, ApiError, clockAhead, key, keyWanted, serverNow } from './api';

/** The refresh intervals without a stream and with one. */
const pollMs = 3000;
const pollBesideStreamMs = 15_000;
/** The delay from an event to its refresh, which collects further events. */
const gatherMs = 400;
/** The least time between two refreshes for events, for a busy server. */
const restMs = 1200;
const reconnectMs = 2000;
/** Older data is marked as stale. */
const staleMs = 12_000;

export const paused = signal(false);

/** The browser's time in ms, updated every second. */
const local = signal(Date.now());

/** The server's time in ms. It changes each second, and with the clock of `duehook dev`. */
export const now = computed(() => serverNow(local.value));

const beat = signal(0);
const answeredAt = signal(Date.now());
const failing = signal(false);
const streaming = signal(false);
const seen = signal(document.visibilityState === 'visible');

export type Freshness = 'live' | 'paused' | 'stale';

export const freshness = computed<Freshness>(() => {
  if (paused.value) return 'paused';
  const patience = streaming.value ? pollBesideStreamMs + staleMs : staleMs;
  return failing.value || local.value - answeredAt.value > patience ? 'stale' : 'live';
});

/** The time of the last answer, in ms of the server's time. */
export const updatedAt = computed(() => answeredAt.value + clockAhead.value);

/** Refreshes everything at once. */
export function refresh(): void {
  beat.value = beat.peek() + 1;
}

/** Whether the page is visible and not paused. */
const wanted = computed(() => seen.value && !paused.value && keyWanted.value === undefined);

/** Follows the server's events until aborted. An event only triggers a refresh. */
async function follow(abort: AbortSignal): Promise<void> {
  let due = 0;
  let more = false; // since the last refresh
  const announce = () => {
    if (due) more = true;
    else due = setTimeout(tell, gatherMs);
  };
  const tell = () => {
    more = false;
    refresh();
    due = setTimeout(() => {
      due = 0;
      if (more) announce();
    }, restMs);
  };
  while (!abort.aborted) {
    try {
      const reader = (await api.events(abort))?.getReader();
      streaming.value = true;
      const decoder = new TextDecoder();
      for (let chunk = await reader?.read(); chunk && !chunk.done; chunk = await reader?.read()) {
        if (decoder.decode(chunk.value, { stream: true }).includes('data:')) announce();
      }
    } catch (error) {
      if (abort.aborted) return;
      if (!(error instanceof ApiError) && !(error instanceof TypeError)) throw error; // a TypeError is a broken connection
    } finally {
      streaming.value = false;
    }
    await new Promise((resolve) => setTimeout(resolve, reconnectMs));
  }
}

export function start(): void {
  document.addEventListener('visibilitychange', () => (seen.value = document.visibilityState === 'visible'));
  setInterval(() => (local.value = Date.now()), 1000);
  effect(() => {
    if (!wanted.value) return undefined;
    refresh();
    const polling = setInterval(refresh, streaming.value ? pollBesideStreamMs : pollMs);
    return () => clearInterval(polling);
  });
  effect(() => {
    if (!wanted.value) return undefined;
    key.value; // another key, another stream
    const abort = new AbortController();
    void follow(abort.signal);
    return () => abort.abort();
  });
}

/** Refreshes at this interval while the condition holds. */
export function useBeat(everyMs: number, useful = true): void {
  const asking = useful && wanted.value;
  useEffect(() => {
    if (!asking) return undefined;
    const timer = setInterval(refresh, everyMs);
    return () => clearInterval(timer);
  }, [asking, everyMs]);
}

export interface Resource<T> {
  data: T | undefined;
  error: ApiError | undefined;
}

/**
 * Loads the data of `name`, and again on each refresh unless limited to once, or to once per given number.
 * Keeps the previous answer while loading.
 */
export function useResource<T>(name: string, load: (abort: AbortSignal) => Promise<T>, once: boolean | number = false): Resource<T> {
  const [held, hold] = useState<Resource<T> & { name: string }>({ name, data: undefined, error: undefined });
  const loader = useRef(load);
  loader.current = load;
  useEffect(() => {
    const abort = new AbortController();
    let asking = false;
    let again = false; // the pending answer may be older than the last refresh
    const ask = async () => {
      again = asking;
      if (asking) return;
      asking = true;
      try {
        const data = await loader.current(abort.signal);
        hold({ name, data, error: undefined });
        answeredAt.value = Date.now();
        failing.value = false;
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        hold((before) => ({ name, data: before.name === name ? before.data : undefined, error }));
        failing.value = error.problem.status === 0 || error.problem.status >= 500;
      } finally {
        asking = false;
        if (again && !abort.signal.aborted) void ask();
      }
    };
    const stop = once ? void ask() : beat.subscribe(() => void ask());
    return () => {
      stop?.();
      abort.abort();
    };
  }, [name, once]);
  return held.name === name ? held : { data: undefined, error: undefined };
}
