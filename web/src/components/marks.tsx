/** Small things that are shown in many places. */
import type { State } from '../api';
import { now } from '../live';
import { count, endpointOf, exact, relative, t } from '../text';

export function StateMark({ state }: { state: State }) {
  return (
    <span class={`state ${state}`}>
      <i class="dot" aria-hidden="true" />
      {t(`state.${state}`)}
    </span>
  );
}

/** A time, as far as it is from now; in full when pointed at. */
export function When({ at }: { at: string }) {
  return (
    <time dateTime={at} title={exact(at)}>
      {relative(Date.parse(at), now.value)}
    </time>
  );
}

/** A URL whose endpoint stands out. It is no link: a receiver is not to be called by a click. */
export function Target({ url, whole = false }: { url: string; whole?: boolean }) {
  const endpoint = endpointOf(url);
  return (
    <span class="target" title={url}>
      {endpoint.replace(/^https?:\/\//, '')}
      {whole && <span class="muted">{url.slice(endpoint.length)}</span>}
    </span>
  );
}

/** A text as it is. One that may need scrolling, on a phone at least, can be reached by keyboard. */
export function Verbatim({ text }: { text: string }) {
  const long = text.length > 200 || text.split('\n').length > 8;
  return <pre tabIndex={long ? 0 : undefined}>{text}</pre>;
}

export function Loading() {
  return (
    <p class="loading" role="status">
      {t('loading')}
    </p>
  );
}

/** How many rows a list has at most that is not cut into pages by the API. */
export const mostRows = 100;

/** Says how many rows of such a list are left out. */
export function More({ of }: { of: number }) {
  if (of <= mostRows) return null;
  return <p class="muted">{t('list.more', { n: count(of - mostRows) })}</p>;
}

export function Empty({ text }: { text: string }) {
  return <p class="empty">{text}</p>;
}
