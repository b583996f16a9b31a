import { address, type Query } from '../address';
import { api, dueRanges, states, type State, type Topic } from '../api';
import { Bars } from '../components/bars';
import { Empty, Loading } from '../components/marks';
import { ProblemNote } from '../components/problem';
import { useResource } from '../live';
import { quantile, total } from '../metrics';
import { count, percent, span, t, type Key } from '../text';

export function OverviewPage() {
  const topics = useResource('overview', async (abort) => {
    const names = await api.topics(abort);
    return Promise.all(names.map(({ topic }) => api.topic(topic, abort)));
  });
  const metrics = useResource('metrics', api.metrics);
  return (
    <>
      <h1>{t('nav.overview')}</h1>
      {topics.error && <ProblemNote error={topics.error} />}
      {topics.data && metrics.data !== undefined ? <Figures topics={topics.data} metrics={metrics.data} /> : !topics.error && <Loading />}
    </>
  );
}

/** Jobs that are due by then. */
const dueBy = (to: string): Query => [...(['waiting', 'ready', 'retrying'] as const).map((state) => ['state', state] as const), ['due_to', to]];

function Figures({ topics, metrics }: { topics: Topic[]; metrics: string }) {
  if (topics.length === 0) return <Empty text={t('overview.none')} />;
  const held = (state: State) => topics.reduce((sum, topic) => sum + topic.states[state], 0);
  const due = (range: (typeof dueRanges)[number]) => topics.reduce((sum, topic) => sum + topic.due_in[range], 0);
  const nextHour = dueRanges.slice(0, 4).reduce((sum, range) => sum + due(range), 0);
  return (
    <>
      <div class="figures">
        <Figure label="overview.dueNow" value={count(held('ready'))} to={address(['jobs'], dueBy('now'))} />
        <Figure label="overview.inFlight" value={count(held('running'))} to={address(['jobs'], [['state', 'running']])} />
        <Figure label="overview.nextHour" value={count(nextHour)} to={address(['jobs'], dueBy('1h'))} />
        <Figure label="overview.success" value={successRate(metrics)} to={address(['jobs'], [['state', 'retrying']])} />
        <Figure label="overview.lateness" value={lateness(metrics)} to="/metrics" />
        <Figure label="overview.dead" value={count(held('dead'))} to="/dead" bad={held('dead') > 0} />
        <Figure label="overview.held" value={count(total(metrics, 'duehook_held_endpoints'))} to={address(['jobs'], [['state', 'retrying']])} />
      </div>
      <section class="card">
        <h2>{t('overview.due')}</h2>
        <Bars bars={dueRanges.slice(0, 6).map((range) => ({ label: t(`due.${range}`), n: due(range) }))} />
      </section>
      <section class="card">
        <h2>{t('overview.states')}</h2>
        <Bars bars={states.map((state) => ({ label: t(`state.${state}`), n: held(state) }))} />
      </section>
    </>
  );
}

function Figure({ label, value, to, bad = false }: { label: Key; value: string; to: string; bad?: boolean }) {
  return (
    <a class={bad ? 'figure bad' : 'figure'} href={to} data-page={to === '/metrics' ? undefined : ''}>
      <span>{t(label)}</span>
      <strong>{value}</strong>
    </a>
  );
}

function successRate(metrics: string): string {
  const delivered = total(metrics, 'duehook_attempts_total', { outcome: 'delivered' });
  const failed = total(metrics, 'duehook_attempts_total', { outcome: 'failed' });
  return delivered + failed === 0 ? '–' : percent(delivered / (delivered + failed));
}

function lateness(metrics: string): string {
  const seconds = quantile(metrics, 'duehook_lateness_seconds', 0.99);
  if (seconds === undefined) return '–';
  return Number.isFinite(seconds) ? `≤ ${span(seconds * 1000)}` : '> 30m';
}
