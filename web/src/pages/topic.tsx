import { address, type Query } from '../address';
import { api, callbackEvents, dueRanges, mayChange, states, type Topic, type TopicLimits, type TopicSettings } from '../api';
import { ActivityCard } from '../components/activity';
import { Bars } from '../components/bars';
import { Mark, PauseFacts, StateMark, When } from '../components/marks';
import { act } from '../components/notices';
import { Crumb, Facts, Loaded, type Fact } from '../components/page';
import { WhyLine } from '../components/why';
import { now, useResource } from '../live';
import { asked, dueBy } from '../search';
import { count, t, type Key } from '../text';
import { CountLink } from './topics';

export function TopicPage({ topic: name }: { topic: string }) {
  const topic = useResource(name, (abort) => api.topic(name, abort));
  return (
    <>
      <Crumb to="/topics">{t('nav.topics')}</Crumb>
      <h1>{name}</h1>
      <Loaded of={topic}>
        {(found) => (
          <>
            <Standing topic={found} />
            {found.overdue > 0 && <Overdue topic={found} />}
            <Details topic={found} />
          </>
        )}
      </Loaded>
    </>
  );
}

/** The state of the topic, with actions to change it. */
function Standing({ topic: { name, state, paused, draining } }: { topic: Topic }) {
  const pause = paused ?? draining;
  return (
    <div class="toolbar">
      <p>
        <Mark kind={`topic-${state}`}>{t(`topic.${state}`)}</Mark>
        {pause && (
          <span class="muted">
            {' · '}
            <When at={pause.since} />
            <PauseFacts pause={pause} />
          </span>
        )}
      </p>
      {mayChange.value && (
        <div class="actions">
          {state !== 'active' && <button onClick={() => void act(() => api.resumeTopic(name))}>{t('topic.resume')}</button>}
          {state !== 'paused' && <button onClick={() => void act(() => api.pauseTopic(name))}>{t('topic.pause')}</button>}
          {state !== 'draining' && <button onClick={() => void act(() => api.drainTopic(name))}>{t('topic.drain')}</button>}
        </div>
      )}
    </div>
  );
}

/** How many jobs are due without being taken, and why one of them waits. */
function Overdue({ topic: { name, overdue } }: { topic: Topic }) {
  const due: Query = [['topic', name], ...dueBy('now')];
  const found = useResource(`overdue ${name}`, (abort) => api.jobs([...asked(due, now.peek()), ['limit', '1']], abort));
  const [job] = found.data?.data ?? [];
  return (
    <section class="card">
      <p>
        <a href={address(['jobs'], due)} data-page>
          {t('topic.overdue', { n: count(overdue) })}
        </a>
      </p>
      {job && <WhyLine job={job} />}
    </section>
  );
}

function Details({ topic }: { topic: Topic }) {
  return (
    <>
      <section class="card">
        <h2>{t('topic.states')}</h2>
        <ul class="statelist">
          {states.map((state) => (
            <li key={state}>
              <StateMark state={state} />
              <CountLink topic={topic} state={state} />
            </li>
          ))}
        </ul>
        <p>
          <a href={address(['jobs'], [['topic', topic.name]])} data-page>
            {t('topic.jobs')}
          </a>
        </p>
      </section>
      <ActivityCard of={[['topic', topic.name]]} />
      <div class="cards">
        <section class="card">
          <h2>{t('topic.due')}</h2>
          <Bars bars={dueRanges.map((range) => ({ label: t(`due.${range}`), n: topic.due_in[range] }))} />
          {topic.due_in_partial && <p class="muted">{t('topic.duePartial')}</p>}
        </section>
        <section class="card facts settings">
          <div class="standing">
            <h2>{t('topic.settings')}</h2>
            {mayChange.value && (
              <a class="button" href={address(['topics', topic.name, 'edit'])} data-page>
                {t('action.edit')}
              </a>
            )}
          </div>
          {topic.settings ? <Settings settings={topic.settings} /> : <p class="muted">{t('topic.noSettings')}</p>}
          {topic.limits && (
            <>
              <h3>{t('topic.operatorLimits')}</h3>
              <Facts facts={limitFacts(topic.limits)} />
            </>
          )}
        </section>
      </div>
    </>
  );
}

const headersText = (headers: Record<string, string>): string =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join(', ');

const fact = (label: Key, value: string | number | null | undefined, wide = false): Fact => [t(label), typeof value === 'number' ? count(value) : value, wide];
const set = (name: string, value: string | number | null | undefined, wide = false) => fact(`setting.${name}` as Key, value, wide);

const limitFacts = (limits: TopicLimits): Fact[] => (['capacity', 'rate', 'concurrency', 'weight'] as const).map((name) => set(name, limits[name]));

/** The settings of a topic, in words. */
function Settings({ settings }: { settings: TopicSettings }) {
  const { retry, headers } = settings;
  const facts = [
    set('destination', settings.url, true),
    ...limitFacts(settings),
    set('on_dead', settings.on_dead && t(`on_dead.${settings.on_dead}`)),
    set('steps', retry?.steps?.join(' ')),
    set('limit', retry?.limit),
    set('timeout', settings.timeout),
    set('ttl', settings.ttl),
    set('priority', settings.priority),
    set('spread', settings.spread),
    ...callbackEvents.map((event) => fact(`callbackOn.${event}`, settings.callbacks?.[event]?.url, true)),
    fact('topic.headers', headersText(headers ?? {}), true),
  ];
  return <Facts facts={facts} />;
}
