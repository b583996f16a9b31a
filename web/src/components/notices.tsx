import { signal } from '@preact/signals';
import { ApiError } from '../api';
import { refresh } from '../live';
import { t, type Key } from '../text';
import { describe } from './problem';

interface Notice {
  number: number;
  text: string;
  bad: boolean;
}

const shownMs = 6000;
const current = signal<Notice | undefined>(undefined);
let hiding = 0;
let shown = 0;

/** Shows the result of an action for a few seconds. */
export function notify(text: string, bad = false): void {
  current.value = { number: ++shown, text, bad };
  clearTimeout(hiding);
  hiding = setTimeout(() => (current.value = undefined), shownMs);
}

/** Calls the API, shows what came of it, and refreshes the page. */
export async function act(call: () => Promise<unknown>, done?: Key): Promise<void> {
  try {
    await call();
    if (done) notify(t(done));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    notify(describe(error), true);
  } finally {
    refresh();
  }
}

export function Notices() {
  const notice = current.value;
  return (
    <div class="notices" role="status">
      {/* A new element each time: a screen reader reads the same text again. */}
      {notice && (
        <p key={notice.number} class={notice.bad ? 'notice bad' : 'notice'}>
          {notice.text}
          <button class="quiet" onClick={() => (current.value = undefined)}>
            {t('action.close')}
          </button>
        </p>
      )}
    </div>
  );
}
