/** Parts of the dashboard that load when first needed. */
import { signal } from '@preact/signals';
import { ApiError } from './api';

const retryMs = 3000;

/**
 * Returns a function that starts loading at its first call. It returns the part, or undefined until
 * the part has loaded, or the error of a failed attempt. Attempts are repeated. Components that call
 * it render again after each change.
 */
export function lazy<Part extends object>(load: () => Promise<Part>): () => Part | ApiError | undefined {
  const state = signal<Part | ApiError | undefined>(undefined);
  let begun = false;
  const attempt = () =>
    load().then(
      (part) => (state.value = part),
      (cause: unknown) => {
        state.value = new ApiError({ title: '', status: 0, detail: String(cause), code: 'unreachable', errors: [] });
        setTimeout(attempt, retryMs);
      },
    );
  return () => {
    if (!begun) void attempt();
    begun = true;
    return state.value;
  };
}
