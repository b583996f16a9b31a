import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, mayAdmin, states, type TopicCounts } from '../api';
import { Empty, Loading, More, mostRows } from '../components/marks';
import { ProblemNote } from '../components/problem';
import { useResource } from '../live';
import { count, t } from '../text';

/** Of so many, one is found without searching. */
const fewTopics = 12;

export function TopicsPage() {
  const topics = useResource('topics', api.topics);
  const [find, setFind] = useState('');
  return (
    <>
      <h1>{t('nav.topics')}</h1>
      <div class="toolbar">
        {(topics.data?.length ?? 0) > fewTopics && (
          <input type="search" class="find" aria-label={t('topics.find')} placeholder={t('topics.find')} value={find} onInput={(e) => setFind(e.currentTarget.value)} />
        )}
        {mayAdmin.value && (
          <a class="button" href="/topics?new" data-page>
            {t('topic.new')}
          </a>
        )}
      </div>
      {topics.error && <ProblemNote error={topics.error} />}
      {topics.data ? <TopicTable topics={topics.data} find={find} /> : !topics.error && <Loading />}
    </>
  );
}

function TopicTable({ topics, find }: { topics: TopicCounts[]; find: string }) {
  const found = topics.filter(({ topic }) => topic.includes(find.trim()));
  if (found.length === 0) return <Empty text={t(topics.length === 0 ? 'topics.none' : 'topics.noMatch')} />;
  return (
    <>
      <Table topics={found.slice(0, mostRows)} />
      <More of={found.length} />
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
          <tr key={one.topic}>
            <td class="name">
              <a href={address(['topics', one.topic])} data-page>
                {one.topic}
              </a>
              {one.status !== 'active' && (
                <span class={`state topic-${one.status}`}>
                  <i class="dot" aria-hidden="true" />
                  {t(`topic.short_${one.status}`)}
                </span>
              )}
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

/** A number of jobs, which leads to them. */
export function CountLink({ topic, state }: { topic: TopicCounts; state: (typeof states)[number] }) {
  const n = topic.states[state];
  if (n === 0) return <span class="muted">0</span>;
  return (
    <a href={address(['jobs'], [['topic', topic.topic], ['state', state]])} data-page class={state === 'dead' ? 'bad' : undefined}>
      {count(n)}
    </a>
  );
}
