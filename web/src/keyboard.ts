/** The key / goes to the search, as on other sites. */
import { navigate } from './router';

let wanted = false;

/** Whether the key has opened the page, whose search then gets the focus. */
export function wantsSearch(): boolean {
  const was = wanted;
  wanted = false;
  return was;
}

function press(event: KeyboardEvent): void {
  const { target, key, ctrlKey, metaKey, altKey } = event;
  if (key !== '/' || ctrlKey || metaKey || altKey || event.defaultPrevented) return;
  if (target instanceof Element && target.closest('input, textarea, select, dialog, [contenteditable]')) return;
  event.preventDefault();
  const box = document.querySelector<HTMLInputElement>('main input[type=search]');
  if (box) {
    box.focus();
    box.select();
    return;
  }
  wanted = true;
  navigate('/jobs');
}

export const start = (): void => addEventListener('keydown', press);
