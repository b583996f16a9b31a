/** What pages share: the way back, what is loaded, and the parts of long lists. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { address, type Query } from '../address';
import { mayChange } from '../api';
import { useResource, type Resource } from '../live';
import { count, t } from '../text';
import { Empty, Loading } from './marks';
import { ProblemNote } from './problem';

/** A link to the page above this one. */
export function Crumb({ to, children }: { to: string; children: ComponentChildren }) {
  return (
    <p class="crumb">
      <a href={to} data-page>
        {children}
      </a>
    </p>
  );
}

/** The loaded data, also beside the error of a later attempt. */
export function Loaded<T>({ of: { data, error }, children }: { of: Resource<T>; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {error && <ProblemNote error={error} />}
      {data === undefined ? !error && <Loading /> : children(data)}
    </>
  );
}

/** A form, for keys that may change something. */
export function Writable({ children }: { children: ComponentChildren }) {
  return mayChange.value ? <>{children}</> : <Empty text={t('write.only')} />;
}

/** Links to the first and to the next page of a list, if there are such pages. */
export function Pager({ first, next }: { first?: string | null | undefined; next?: string | null | undefined }) {
  if (!first && !next) return null;
  return (
    <nav class="pager" aria-label={t('jobs.pages')}>
      {first && (
        <a class="button" href={first} data-page>
          {t('jobs.first')}
        </a>
      )}
      {next && (
        <a class="button" href={next} data-page>
          {t('jobs.next')}
        </a>
      )}
    </nav>
  );
}

/** The most rows shown at once of a list that has been loaded as a whole. */
const mostRows = 50;

interface PagedProps<T> {
  /** Of the resource. */
  name: string;
  /** Loads once per number, instead of on each refresh. */
  once?: number;
  load: (query: Query, abort: AbortSignal) => Promise<{ data: T[]; next_cursor: string | null }>;
  /** Said of an empty list, if its children do not. */
  none?: string;
  children: (rows: T[]) => ComponentChildren;
}

/** A list that the server pages, on a page with other content. */
export function Paged<T>({ name, once, load, none, children }: PagedProps<T>) {
  const [cursors, go] = useState<string[]>([]);
  const query: Query = [['limit', String(mostRows)], ...cursors.slice(-1).map((cursor) => ['cursor', cursor] as const)];
  const page = useResource(address([name], query), (abort) => load(query, abort), once);
  return (
    <Loaded of={page}>
      {({ data, next_cursor: next }) => (
        <>
          {data.length > 0 || cursors.length > 0 || none === undefined ? children(data) : <Empty text={none} />}
          {(next || cursors.length > 0) && (
            <nav class="pager" aria-label={t('jobs.pages')}>
              <button type="button" disabled={cursors.length === 0} onClick={() => go(cursors.slice(0, -1))}>
                {t('list.previous')}
              </button>
              <button type="button" disabled={!next} onClick={() => next && go([...cursors, next])}>
                {t('jobs.next')}
              </button>
            </nav>
          )}
        </>
      )}
    </Loaded>
  );
}


/** A part of such a list, with buttons to the others. */
export function Parts<T>({ rows, children }: { rows: readonly T[]; children: (rows: T[]) => ComponentChildren }) {
  const [wanted, want] = useState(0);
  const last = Math.max(0, Math.ceil(rows.length / mostRows) - 1);
  const part = Math.min(wanted, last);
  const from = part * mostRows;
  const shown = rows.slice(from, from + mostRows);
  return (
    <>
      {children(shown)}
      {last > 0 && (
        <nav class="pager" aria-label={t('jobs.pages')}>
          <span class="muted">{t('list.part', { from: count(from + 1), to: count(from + shown.length), of: count(rows.length) })}</span>
          <button type="button" disabled={part === 0} onClick={() => want(part - 1)}>
            {t('list.previous')}
          </button>
          <button type="button" disabled={part === last} onClick={() => want(part + 1)}>
            {t('jobs.next')}
          </button>
        </nav>
      )}
    </>
  );
}

/** A label and its value; one without a value is left out. */
export type Fact = [label: string, value: ComponentChildren, wide?: boolean];

/** A value of several, each on its own line. */
export const lines = <T,>(values: readonly T[], show: (value: T) => ComponentChildren): ComponentChildren =>
  values.length > 0 && values.map((value, i) => <div key={i}>{show(value)}</div>);

export function Facts({ facts }: { facts: Fact[] }) {
  return (
    <dl>
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false)
        .map(([label, value, wide]) => (
          <div key={label} class={wide ? 'wide' : undefined}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
