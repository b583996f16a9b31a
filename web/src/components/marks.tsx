/** Small elements that many pages share. */
import type { ComponentChildren } from 'preact';
import { address } from '../address';
import { restricted, type Pause, type State } from '../api';
import { now } from '../live';
import { endpointOf, exact, pullQueue, relative, t } from '../text';

/** A state in its colour. */
export function Mark({ kind, children }: { kind: string; children: ComponentChildren }) {
  return (
    <span class={`state ${kind}`}>
      <i class="dot" aria-hidden="true" />
      {children}
    </span>
  );
}

export const StateMark = ({ state }: { state: State }) => <Mark kind={state}>{t(`state.${state}`)}</Mark>;

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

/** A URL with its endpoint highlighted; null and pullQueue are those of jobs that consumers fetch. Not a link: a click must not call a receiver. Long hosts break after dots. */
export function Target({ url, whole = false }: { url: string | null; whole?: boolean }) {
  if (url === null || url === pullQueue) return <span class="muted">{t('job.pull')}</span>;
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

/** A URL as a link to the page of its endpoint, if the key may see that. */
export function EndpointLink({ url, whole = false }: { url: string | null; whole?: boolean }) {
  if (url === null || url === pullQueue || restricted.value) return <Target url={url} whole={whole} />;
  return (
    <a href={address(['endpoints'], [['endpoint', endpointOf(url)]])} data-page>
      <Target url={url} whole={whole} />
    </a>
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

export function Empty({ text }: { text: string }) {
  return <p class="empty">{text}</p>;
}
