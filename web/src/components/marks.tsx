/** Small elements that many pages share. */
import type { Pause, State } from '../api';
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

/** A time relative to now; the full time as a tooltip. */
export function When({ at }: { at: string }) {
  return (
    <time dateTime={at} title={exact(at)}>
      {relative(Date.parse(at), now.value)}
    </time>
  );
}

/** When a pause ends, who paused, and why. */
export function PauseFacts({ pause: { until, by, note } }: { pause: Pause }) {
  return (
    <>
      {until && (
        <>
          {' · '}
          {t('pause.until')} <time dateTime={until}>{exact(until)}</time>
        </>
      )}
      {by && ` · ${t('pause.by', { by })}`}
      {note && ` · ${note}`}
    </>
  );
}

/** A URL with its endpoint highlighted. Not a link: a click must not call a receiver. Long hosts break after dots. */
export function Target({ url, whole = false }: { url: string | null; whole?: boolean }) {
  if (url === null) return <span class="muted">{t('job.pull')}</span>;
  const endpoint = endpointOf(url);
  return (
    <span class="target" title={url}>
      {endpoint
        .replace(/^https?:\/\//, '')
        .split(/(?<=\.)/)
        .map((label, i) => (i === 0 ? label : [<wbr />, label]))}
      {whole && <span class="muted">{url.slice(endpoint.length)}</span>}
    </span>
  );
}

/** Preformatted text. Focusable, because it may need scrolling. */
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

/** The most rows shown of a list that the API does not page. */
export const mostRows = 100;

/** Shows how many rows of such a list are hidden. */
export function More({ of }: { of: number }) {
  if (of <= mostRows) return null;
  return <p class="muted">{t('list.more', { n: count(of - mostRows) })}</p>;
}

export function Empty({ text }: { text: string }) {
  return <p class="empty">{text}</p>;
}
