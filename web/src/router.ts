/** The router: the address bar decides which page is shown. */
import { signal } from '@preact/signals';

interface Place {
  path: string;
  query: URLSearchParams;
}

const read = (): Place => ({ path: location.pathname, query: new URLSearchParams(location.search) });

export const place = signal(read());

export function navigate(to: string): void {
  history.pushState(null, '', to);
  place.value = read();
  window.scrollTo(0, 0);
}

/** The decoded parts of a path, or undefined if one is not a valid escape. */
export function parts(path: string): string[] | undefined {
  try {
    return path.split('/').filter(Boolean).map(decodeURIComponent);
  } catch {
    return undefined;
  }
}

/** Follows links of the dashboard without reloading the page. */
function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const anchor = (event.target as Element).closest('a');
  if (!anchor || anchor.target || anchor.origin !== location.origin || !anchor.hasAttribute('data-page')) return;
  event.preventDefault();
  navigate(anchor.pathname + anchor.search);
}

export function start(): void {
  addEventListener('popstate', () => (place.value = read()));
  document.addEventListener('click', follow);
}
