import { signal } from '@preact/signals';
import { ApiError } from '../api';
import { t } from '../text';
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

/** Shows the error of an action. */
export function notifyError(error: unknown): void {
  if (!(error instanceof ApiError)) throw error;
  notify(describe(error), true);
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
