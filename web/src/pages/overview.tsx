import { address, type Query } from '../address';
import { api, ApiError, dueRanges, states, unfinished, type State, type Topic, type TopicCounts } from '../api';
import { Bars } from '../components/bars';
import { Empty, Loading } from '../components/marks';
import { ProblemNote } from '../components/problem';
import { useResource } from '../live';
import { between, quantile, total } from '../metrics';
import { count, percent, span, t, type Key } from '../text';

const latenessMetric = 'duehook_lateness_seconds';

interface Topics {
  topics: TopicCounts[];
  /** Those that hold jobs that have not ended, with when these are due. */
  coming: Topic[];
}

const open = (topic: TopicCounts): number => unfinished.reduce((sum, state) => sum + topic.states[state], 0);

async function loadTopics(abort: AbortSignal): Promise<Topics> {
  const topics = await api.topics(abort);
  const coming = await Promise.all(topics.filter(open).map(({ topic }) => api.topic(topic, abort).catch(goneSince)));
  return { topics, coming: coming.filter((topic) => topic !== undefined) };
}

/** A topic is gone with its last job, which may be between two calls. */
function goneSince(error: unknown): undefined {
  if (!(error instanceof ApiError) || error.problem.status !== 404) throw error;
}

export function OverviewPage() {
  const topics = useResource('overview', loadTopics);
  const metrics = useResource('metrics', api.metrics);
  return (
    <>
      <h1>{t('nav.overview')}</h1>
      {topics.error && <ProblemNote error={topics.error} />}
      {topics.data && metrics.data !== undefined ? <Figures {...topics.data} metrics={metrics.data} /> : !topics.error && <Loading />}
    </>
  );
}

/** Jobs that are due by then. */
const dueBy = (to: string): Query => [...(['waiting', 'ready', 'retrying'] as const).map((state) => ['state', state] as const), ['due_to', to]];

function Figures({ topics, coming, metrics }: Topics & { metrics: string }) {
  if (topics.length === 0) return <Empty text={t('overview.none')} />;
  const held = (state: State) => topics.reduce((sum, topic) => sum + topic.states[state], 0);
  const due = (range: (typeof dueRanges)[number]) => coming.reduce((sum, topic) => sum + topic.due_in[range], 0);
  const nextHour = dueRanges.slice(0, 4).reduce((sum, range) => sum + due(range), 0);
  return (
    <>
      <div class="figures">
        <Figure label="overview.dueNow" value={count(held('ready'))} to={address(['jobs'], dueBy('now'))} />
        <Figure label="overview.inFlight" value={count(held('running'))} to={address(['jobs'], [['state', 'running']])} />
        <Figure label="overview.nextHour" value={count(nextHour)} to={address(['jobs'], dueBy('1h'))} />
        <Figure label="overview.success" value={successRate(metrics)} to={address(['jobs'], [['state', 'retrying']])} />
        <Figure label="overview.lateness" value={lateness(metrics)} to="#lateness" />
        <Figure label="overview.dead" value={count(held('dead'))} to="/dead" bad={held('dead') > 0} />
        <Figure label="overview.held" value={count(total(metrics, 'duehook_held_endpoints'))} to={address(['jobs'], [['state', 'retrying']])} />
      </div>
      <div class="cards">
        <section class="card">
          <h2>{t('overview.due')}</h2>
          <Bars bars={dueRanges.slice(0, 6).map((range) => ({ label: t(`due.${range}`), n: due(range) }))} />
        </section>
        <section class="card" id="lateness">
          <h2>{t('overview.latenessOf')}</h2>
          <Bars bars={latenessBars(metrics)} />
        </section>
        <section class="card">
          <h2>{t('overview.states')}</h2>
          <Bars bars={states.map((state) => ({ label: t(`state.${state}`), n: held(state), to: address(['jobs'], [['state', state]]) }))} />
        </section>
        <section class="card">
          <h2>{t('overview.topics')}</h2>
          <Bars bars={topicBars(topics)} />
        </section>
      </div>
    </>
  );
}

function Figure({ label, value, to, bad = false }: { label: Key; value: string; to: string; bad?: boolean }) {
  return (
    <a class={bad ? 'figure bad' : 'figure'} href={to} data-page={to.startsWith('#') ? undefined : ''}>
      <span>{t(label)}</span>
      <strong>{value}</strong>
    </a>
  );
}

const mostTopics = 8;

/** The topics with the most unfinished jobs. */
function topicBars(topics: TopicCounts[]) {
  return topics
    .map((one) => ({ label: one.topic, n: open(one), to: address(['topics', one.topic]) }))
    .sort((a, b) => b.n - a.n)
    .slice(0, mostTopics);
}

/** Bounds of lateness in seconds: those that tell apart what is well, what is busy and what is wrong. */
const latenessBounds = [0.008, 0.05, 0.25, 1, 5, 60, Infinity];

function latenessBars(metrics: string): { label: string; n: number }[] {
  const counts = between(metrics, latenessMetric, latenessBounds);
  return latenessBounds.map((bound, i) => ({
    label: bound === Infinity ? `> ${span(60_000)}` : `≤ ${span(bound * 1000)}`,
    n: counts[i] ?? 0,
  }));
}

function successRate(metrics: string): string {
  const delivered = total(metrics, 'duehook_attempts_total', { outcome: 'delivered' });
  const failed = total(metrics, 'duehook_attempts_total', { outcome: 'failed' });
  return delivered + failed === 0 ? '–' : percent(delivered / (delivered + failed));
}

function lateness(metrics: string): string {
  const seconds = quantile(metrics, latenessMetric, 0.99);
  if (seconds === undefined) return '–';
  return Number.isFinite(seconds) ? `≤ ${seconds < 1 ? span(seconds * 1000) : `${seconds}s`}` : '> 30m';
}
