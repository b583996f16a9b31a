import { address } from '../address';
import { api, states, type AlertPage, type Overview } from '../api';
import { ActivityCard } from '../components/activity';
import { Bars } from '../components/bars';
import { DueChart } from '../components/due-chart';
import { Heatmap } from '../components/heatmap';
import { Empty } from '../components/marks';
import { Loaded } from '../components/page';
import { useResource } from '../live';
import { dueBy } from '../search';
import { count, percent, span, t, type Key } from '../text';

export function OverviewPage() {
  const overview = useResource('overview', api.overview);
  const firing = useResource('firing', (abort) => api.alerts([['limit', '100']], abort)).data;
  return (
    <>
      <h1>{t('nav.overview')}</h1>
      <Loaded of={overview}>{(view) => <Figures view={view} firing={firing} />}</Loaded>
    </>
  );
}

function Figures({ view, firing }: { view: Overview; firing: AlertPage | undefined }) {
  if (states.every((state) => view.states[state] === 0) && view.success_rate === null) return <Empty text={t('overview.none')} />;
  return (
    <>
      <div class="figures">
        <Figure label="overview.dueNow" value={upTo(view, 0, view.due_now)} to={address(['jobs'], dueBy('now'))} />
        <Figure label="overview.inFlight" value={count(view.in_flight)} to={address(['jobs'], [['state', 'running']])} />
        <Figure label="overview.nextHour" value={upTo(view, hourMs, view.due_within_1h)} to={address(['jobs'], dueBy('1h'))} />
        <Figure label="overview.success" value={view.success_rate === null ? '–' : percent(view.success_rate)} to={address(['jobs'], [['state', 'retrying']])} />
        <Figure label="overview.lateness" value={lateness(view)} to="#lateness" />
        <Figure label="overview.dead" value={count(view.dead)} to="/dead" bad={view.dead > 0} />
        <Figure label="overview.circuits" value={count(view.open_circuits)} to={address(['endpoints'], [['state', 'open']])} bad={view.open_circuits > 0} />
        <Figure label="overview.alerts" value={firing ? count(firing.data.length) + (firing.next_cursor ? '+' : '') : '–'} to="/alerts" bad={Boolean(firing?.data.length)} />
      </div>
      <section class="card">
        <h2>{t('overview.due')}</h2>
        <DueChart due={view.due} />
      </section>
      <ActivityCard of={[]} />
      <section class="card" id="lateness">
        <h2>{t('overview.latenessOf')}</h2>
        <Heatmap recent={view.recent} />
      </section>
      <div class="cards">
        <section class="card">
          <h2>{t('overview.states')}</h2>
          <Bars bars={states.map((state) => ({ label: t(`state.${state}`), n: view.states[state], to: address(['jobs'], [['state', state]]) }))} />
        </section>
        <section class="card">
          <h2>{t('overview.topics')}</h2>
          <Bars bars={view.topics.slice(0, states.length).map(({ topic, unfinished }) => ({ label: topic, n: unfinished, to: address(['topics', topic]) }))} />
        </section>
      </div>
    </>
  );
}

const hourMs = 3_600_000;

/** The number of jobs due within a span after the count. Too low if the count is partial. */
function upTo({ as_of: at, due: { partial_from: from } }: Overview, ms: number, n: number): string {
  return from !== null && Date.parse(from) <= Date.parse(at) + ms ? `≥\u202f${count(n)}` : count(n);
}

function Figure({ label, value, to, bad = false }: { label: Key; value: string; to: string; bad?: boolean }) {
  return (
    <a class={bad ? 'figure bad' : 'figure'} href={to} data-page={to.startsWith('#') ? undefined : ''}>
      <span>{t(label)}</span>
      <strong>{value}</strong>
    </a>
  );
}

/** The bound that 99 of 100 attempts meet; the last bound covers everything above it. */
function lateness({ lateness_p99_ms: ms, recent }: Overview): string {
  if (ms === null) return '–';
  return `${ms === recent.lateness.bounds_ms.at(-1) ? '≥' : '≤'}\u202f${span(ms)}`;
}
