import { address } from '../address';
import { api, callbackEvents, dueRanges, mayChange, states, thresholds, type Topic, type TopicSettings } from '../api';
import { ActivityCard } from '../components/activity';
import { Bars } from '../components/bars';
import { Loading, PauseFacts, StateMark, When } from '../components/marks';
import { notifyError } from '../components/notices';
import { ProblemNote } from '../components/problem';
import { refresh, useResource } from '../live';
import { count, t, type Key } from '../text';
import { CountLink } from './topics';

export function TopicPage({ topic: name }: { topic: string }) {
  const topic = useResource(name, (abort) => api.topic(name, abort));
  return (
    <>
      <p class="crumb">
        <a href="/topics" data-page>
          {t('nav.topics')}
        </a>
      </p>
      <h1>{name}</h1>
      {topic.data && <Standing topic={topic.data} />}
      {topic.error && <ProblemNote error={topic.error} />}
      {topic.data ? <Details topic={topic.data} /> : !topic.error && <Loading />}
    </>
  );
}

/** The state of the topic, with actions to change it. */
function Standing({ topic: { name, state, paused, draining } }: { topic: Topic }) {
  const pause = paused ?? draining;
  const steer = async (call: (name: string) => Promise<Topic>) => {
    try {
      await call(name);
    } catch (error) {
      notifyError(error);
    }
    refresh();
  };
  return (
    <div class="toolbar">
      <p>
        <span class={`state topic-${state}`}>
          <i class="dot" aria-hidden="true" />
          {t(`topic.${state}`)}
        </span>
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
          {state !== 'active' && <button onClick={() => void steer(api.resumeTopic)}>{t('topic.resume')}</button>}
          {state !== 'paused' && <button onClick={() => void steer(api.pauseTopic)}>{t('topic.pause')}</button>}
          {state !== 'draining' && <button onClick={() => void steer(api.drainTopic)}>{t('topic.drain')}</button>}
        </div>
      )}
    </div>
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
        </section>
      </div>
    </>
  );
}

const headersText = (headers: Record<string, string>): string =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join(', ');

/** The settings of a topic, in words. */
function Settings({ settings }: { settings: TopicSettings }) {
  const { retry, headers, alerts } = settings;
  const shown = (value: string | number) => (typeof value === 'number' ? count(value) : value);
  const fact = (label: Key, value: string | number | null | undefined): [Key, string][] =>
    value === null || value === undefined || value === '' ? [] : [[label, shown(value)]];
  const set = (name: string, value: string | number | null | undefined) => fact(`setting.${name}` as Key, value);
  const facts = [
    ...set('destination', settings.url),
    ...set('capacity', settings.capacity),
    ...set('rate', settings.rate),
    ...set('concurrency', settings.concurrency),
    ...set('weight', settings.weight),
    ...set('on_dead', settings.on_dead && t(`on_dead.${settings.on_dead}`)),
    ...set('steps', retry?.steps?.join(' ')),
    ...set('limit', retry?.limit),
    ...set('timeout', settings.timeout),
    ...set('ttl', settings.ttl),
    ...set('priority', settings.priority),
    ...set('spread', settings.spread),
    ...callbackEvents.flatMap((event) => fact(`callbackOn.${event}`, settings.callbacks?.[event]?.url)),
    ...fact('topic.headers', headersText(headers ?? {})),
  ];
  const alerting = [
    ...thresholds.flatMap((name) => set(name, alerts?.[name])),
    ...set('window', alerts?.window),
    ...set('min_attempts', alerts?.min_attempts),
    ...set('for', alerts?.for),
    ...set('url', alerts?.url),
  ];
  return (
    <>
      <Facts facts={facts} />
      {alerting.length > 0 && (
        <>
          <h3>{t('nav.alerts')}</h3>
          <Facts facts={alerting} />
        </>
      )}
    </>
  );
}

function Facts({ facts }: { facts: [Key, string][] }) {
  return (
    <dl>
      {facts.map(([label, value]) => (
        <div key={label}>
          <dt>{t(label)}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
