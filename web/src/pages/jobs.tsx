import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { address, type Query } from '../address';
import { api, bulkActions, mayChange, orders, states, type Job, type JobPage, type State } from '../api';
import { BulkDialog } from '../components/bulk-dialog';
import { Icon } from '../components/icon';
import { JobTable } from '../components/job-table';
import { Empty } from '../components/marks';
import { Loaded, Pager } from '../components/page';
import { now, refresh, useResource } from '../live';
import { choosable, jobsByNeed, needed } from '../need';
import { navigate, place } from '../router';
import { asked, filterOf, search, written } from '../search';
import { count, t, type Key } from '../text';

const perPage = '50';

export function JobsPage() {
  const { query } = place.value;
  const filter = filterOf(query);
  const cursor = query.get('cursor');
  const order = query.get('order') ?? usual(filter);
  const byNeed = order === needed && choosable(filter);
  const sorted: Query = order ? [...filter, ['order', order]] : filter;
  const page = (next: string | null): Query => (next ? [...sorted, ['cursor', next]] : sorted);
  const name = address(['jobs'], page(cursor));
  const jobs = useResource(name, (abort) =>
    byNeed ? jobsByNeed(filter, cursor, Number(perPage), abort) : api.jobs([...asked(page(cursor), now.value), ['limit', perPage]], abort),
  );
  return (
    <>
      <h1>{t('nav.jobs')}</h1>
      <SearchBox filter={filter} />
      <div class="toolbar">
        <StateTabs filter={filter} />
        <div class="actions">
          <Order filter={filter} order={order} />
          {mayChange.value && <Bulk filter={filter} />}
        </div>
      </div>
      <Loaded of={jobs}>
        {(found) => (
          <Rows
            key={name}
            page={order ? found : { ...found, data: byTime(found.data) }}
            first={cursor && address(['jobs'], sorted)}
            next={found.next_cursor && address(['jobs'], page(found.next_cursor))}
          />
        )}
      </Loaded>
    </>
  );
}

function SearchBox({ filter }: { filter: Query }) {
  const stands = written(filter);
  const [typed, type] = useState(stands);
  const [fault, blame] = useState<string>();
  const part = topicIn(typed);
  const topics = useResource(`topics with ${part}`, (abort) => api.topics(part ? [['q', part]] : [], abort), true);
  // A later effect would run at the first letter typed, and remove it.
  useLayoutEffect(() => {
    type(stands);
    blame(undefined);
  }, [stands]);
  return (
    <>
      <form
        class="search"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          void search(typed).then(blame);
        }}
      >
        <Icon name="search" />
        <input
          type="search"
          list="searches"
          aria-label={t('search.label')}
          placeholder={t('search.hint')}
          spellcheck={false}
          value={typed}
          onInput={(e) => type(e.currentTarget.value)}
        />
        <datalist id="searches">
          {topics.data?.data.map(({ name: topic }) => (
            <option key={topic} value={`topic:${topic}`} />
          ))}
        </datalist>
        <button>{t('search.go')}</button>
      </form>
      {fault && (
        <p class="problem" role="alert">
          {fault}
        </p>
      )}
    </>
  );
}

/** The part of a topic's name typed so far. */
const topicIn = (typed: string): string => /(?:^|\s)topic:([\p{L}\p{Nd}._:@-][\p{L}\p{M}\p{Nd}\u200C._:@-]*)$/u.exec(typed)?.[1] ?? '';

/** Whether the API has an order of the jobs: each chosen state must be one that the order sorts. */
function sortable(filter: Query, order: (typeof orders)[number]): boolean {
  const chosen = filter.flatMap(([name, value]) => (name === 'state' ? [value] : []));
  return chosen.length > 0 && chosen.every((state) => (order === '-ended' ? ended : waits).includes(state));
}

const waits = ['waiting', 'retrying'];
const ended = ['delivered', 'dead', 'cancelled', 'expired'];

/** The order of jobs for which nobody chose one. Those of all topics may be in too many lanes to sort. */
const usual = (filter: Query): string =>
  (filter.some(([name]) => name === 'topic') && (['due', '-ended'] as const).find((order) => sortable(filter, order))) || '';

/** The jobs of a page by time: unfinished ones that are due first, then those that ended last. */
const byTime = (jobs: Job[]): Job[] => jobs.toSorted((a, b) => rank(a) - rank(b));
const rank = ({ ended_at: ended, next_at: next, due_at: due }: Job): number => (ended === null ? Date.parse(next ?? due) : Number.MAX_SAFE_INTEGER - Date.parse(ended));

const orderNames: Record<(typeof orders)[number], Key> = {
  due: 'order.due',
  '-due': 'order.due_desc',
  '-ended': 'order.ended_desc',
};

function Order({ filter, order }: { filter: Query; order: string }) {
  const sort = (chosen: string) => navigate(address(['jobs'], chosen ? [...filter, ['order', chosen]] : filter));
  const refused = !orders.some((one) => sortable(filter, one));
  return (
    <select aria-label={t('jobs.order')} value={order} onChange={(e) => sort(e.currentTarget.value)}>
      {!usual(filter) && <option value="">{t('order.page')}</option>}
      {choosable(filter) && <option value={needed}>{t('order.needed')}</option>}
      {refused && <option disabled>{t('order.needs')}</option>}
      {orders.map((one) => (
        <option key={one} value={one} disabled={!sortable(filter, one)}>
          {t(orderNames[one])}
        </option>
      ))}
    </select>
  );
}

function Bulk({ filter }: { filter: Query }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button onClick={() => setOpen(true)}>{t('bulk.open')}</button>
      {open && <BulkDialog filter={filter} actions={bulkActions} onClose={() => setOpen(false)} />}
    </>
  );
}

/** The states, with job counts where known. */
function StateTabs({ filter }: { filter: Query }) {
  const others = filter.filter(([name]) => name !== 'state');
  const chosen = filter.flatMap(([name, value]) => (name === 'state' ? [value] : []));
  const [[name, topic] = [], ...rest] = others;
  const known = rest.length === 0 && (name === undefined || name === 'topic');
  const { data: held } = useResource(`counts ${known} ${topic}`, async (abort) => (known ? counts(topic, abort) : undefined));
  return (
    <nav class="tabs" aria-label={t('job.state')}>
      <a href={address(['jobs'], others)} data-page aria-current={chosen.length > 0 ? undefined : 'true'}>
        {t('state.all')}
      </a>
      {states.map((state) => (
        <a
          key={state}
          href={address(['jobs'], [...others, ['state', state]])}
          data-page
          aria-current={chosen.includes(state) ? 'true' : undefined}
        >
          {t(`state.${state}`)}
          {held && <span class="muted">{count(held[state])}</span>}
        </a>
      ))}
    </nav>
  );
}

/** Job counts by state, of a topic or of all; undefined if the topic is not found. A search, since a topic may not exist. */
async function counts(topic: string | undefined, abort: AbortSignal): Promise<Record<State, number> | undefined> {
  if (topic === undefined) return (await api.overview(abort)).states;
  const { data } = await api.topics([['q', topic], ['limit', '1000']], abort);
  return data.find(({ name }) => name === topic)?.states;
}

interface RowsProps {
  page: JobPage;
  /** Links to the first and the next page, if different. */
  first: string | null;
  next: string | null;
}

/** Rows keep their places while someone reads: their content changes, but new rows wait for a click. */
function Rows({ page, first, next }: RowsProps) {
  const shown = useRef(page.data);
  const [, redraw] = useState(0);
  const latest = new Map(page.data.map((job) => [job.uid, job]));
  shown.current = shown.current.map((job) => latest.get(job.uid) ?? job);
  const known = new Set(shown.current.map((job) => job.uid));
  const gone = new Set([...known].filter((uid) => !latest.has(uid)));
  const fresh = page.data.filter((job) => !known.has(job.uid)).length;
  const show = () => {
    shown.current = page.data;
    redraw((n) => n + 1);
    refresh();
  };
  return (
    <>
      {fresh > 0 && (
        <button class="fresh" onClick={show}>
          {t('jobs.fresh', { n: count(fresh) })}
        </button>
      )}
      <List jobs={shown.current} gone={gone} />
      <Pager first={first} next={next} />
    </>
  );
}

function List({ jobs, gone }: { jobs: Job[]; gone: Set<string> }) {
  if (jobs.length === 0) return <Empty text={t('jobs.none')} />;
  return <JobTable jobs={jobs} gone={gone} />;
}
