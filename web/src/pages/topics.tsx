import { useEffect, useRef, useState } from 'preact/hooks';
import { address, type Query } from '../address';
import { api, mayChange, states, type TopicCounts, type TopicPage } from '../api';
import { Empty, Mark } from '../components/marks';
import { Loaded, Pager } from '../components/page';
import { useResource } from '../live';
import { navigate, place } from '../router';
import { count, t } from '../text';

/** The pause after typing before a search, in ms. */
const typingMs = 250;

/** The order by unfinished jobs, which has one page. */
const busiest = '-unfinished';
const mostBusy = 100;

interface Asked {
  find: string;
  order: string;
}

/** The query of a page of topics, for the API and the address. */
const asking = ({ find, order }: Asked, cursor: string | null): Query =>
  [['q', find] as const, ['order', order] as const, ['cursor', cursor ?? ''] as const].filter(([, value]) => value);

const at = (asked: Asked, cursor: string | null = null): string => address(['topics'], asking(asked, cursor));

export function TopicsPage() {
  const { query } = place.value;
  const asked = { find: query.get('q') ?? '', order: query.get('order') ?? '' };
  const cursor = query.get('cursor');
  const topics = useResource(at(asked, cursor), (abort) => api.topics(asking(asked, cursor), abort));
  return (
    <>
      <h1>{t('nav.topics')}</h1>
      <div class="toolbar">
        <Find {...asked} />
        <div class="actions">
          <select aria-label={t('topics.order')} value={asked.order} onChange={(e) => navigate(at({ ...asked, order: e.currentTarget.value }))}>
            <option value="">{t('topics.byName')}</option>
            <option value={busiest}>{t('topics.byJobs')}</option>
          </select>
          {mayChange.value && (
            <a class="button" href="/topics?new" data-page>
              {t('topic.new')}
            </a>
          )}
        </div>
      </div>
      <Loaded of={topics}>{(page) => <Found page={page} asked={asked} first={cursor !== null} />}</Loaded>
    </>
  );
}

/** Searches while one types. */
function Find({ find, order }: Asked) {
  const [typed, type] = useState(find);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const search = (wanted: string) => {
    type(wanted);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => navigate(at({ find: wanted.trim(), order })), typingMs);
  };
  return (
    <input
      type="search"
      class="find"
      aria-label={t('topics.find')}
      placeholder={t('topics.find')}
      value={typed}
      onInput={(e) => search(e.currentTarget.value)}
    />
  );
}

interface FoundProps {
  page: TopicPage;
  asked: Asked;
  /** The current page is not the first. */
  first: boolean;
}

/** A page of topics. With very many names, a search has examined only a part. */
function Found({ page: { data: topics, next_cursor: next }, asked, first }: FoundProps) {
  const none = next ? 'topics.notYet' : asked.find ? 'topics.noMatch' : asked.order ? 'topics.noJobs' : 'topics.none';
  return (
    <>
      {topics.length > 0 ? <Table topics={topics} /> : <Empty text={t(none)} />}
      {asked.order && topics.length >= mostBusy && <p class="muted">{t('topics.mostBusy', { n: count(mostBusy) })}</p>}
      <Pager first={first ? at(asked) : null} next={next && at(asked, next)} />
    </>
  );
}

function Table({ topics }: { topics: TopicCounts[] }) {
  return (
    <table class="counts">
      <thead>
        <tr>
          <th>{t('job.topic')}</th>
          {states.map((state) => (
            <th key={state} class="number">
              {t(`state.${state}`)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {topics.map((one) => (
          <tr key={one.name}>
            <td class="name">
              <a href={address(['topics', one.name])} data-page>
                {one.name}
              </a>
              {one.state !== 'active' && <Mark kind={`topic-${one.state}`}>{t(`topic.short_${one.state}`)}</Mark>}
            </td>
            {states.map((state) => (
              <td key={state} class={one.states[state] === 0 ? 'number none' : 'number'} data-label={t(`state.${state}`)}>
                <CountLink topic={one} state={state} />
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A number that links to its jobs. */
export function CountLink({ topic, state }: { topic: TopicCounts; state: (typeof states)[number] }) {
  const n = topic.states[state];
  if (n === 0) return <span class="muted">0</span>;
  return (
    <a href={address(['jobs'], [['topic', topic.name], ['state', state]])} data-page class={state === 'dead' ? 'bad' : undefined}>
      {count(n)}
    </a>
  );
}
