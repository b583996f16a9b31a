/** Keeps what is shown up to date: pages name what they show, and it is asked for again on each beat. */
import { computed, signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, clockAhead } from './api';

const everyMs = 3000;
/** Answers older than this are marked, whatever the reason. */
const staleMs = 4 * everyMs;

export const paused = signal(false);

/** The server's time, by the second, in ms. */
export const now = signal(Date.now());

const beat = signal(0);
const answeredAt = signal(Date.now());
const failing = signal(false);

export type Freshness = 'live' | 'paused' | 'stale';

export const freshness = computed<Freshness>(() => {
  if (paused.value) return 'paused';
  return failing.value || now.value - clockAhead.value - answeredAt.value > staleMs ? 'stale' : 'live';
});

/** When the last answer came, in ms of the server's time. */
export const updatedAt = computed(() => answeredAt.value + clockAhead.value);

/** Asks for everything that is shown again, at once. */
export function refresh(): void {
  beat.value++;
}

function beatWhenSeen(): void {
  if (!paused.value && document.visibilityState === 'visible') refresh();
}

export function start(): void {
  setInterval(beatWhenSeen, everyMs);
  document.addEventListener('visibilitychange', beatWhenSeen);
  setInterval(() => (now.value = Date.now() + clockAhead.value), 1000);
}

export interface Resource<T> {
  data: T | undefined;
  error: ApiError | undefined;
}

/**
 * Loads what `name` stands for, and again on each beat unless told to do it once. While an answer is awaited, the one
 * before stays.
 */
export function useResource<T>(name: string, load: (abort: AbortSignal) => Promise<T>, once = false): Resource<T> {
  const [held, hold] = useState<Resource<T> & { name: string }>({ name, data: undefined, error: undefined });
  const loader = useRef(load);
  loader.current = load;
  useEffect(() => {
    const abort = new AbortController();
    let asking = false;
    const ask = async () => {
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
      }
    };
    const stop = once ? void ask() : beat.subscribe(() => void ask());
    return () => {
      stop?.();
      abort.abort();
    };
  }, [name]);
  return held.name === name ? held : { data: undefined, error: undefined };
}
