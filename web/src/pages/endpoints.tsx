import { useState } from 'preact/hooks';
import { address, type Query } from '../address';
import { api, endpointStates, mayChange, type Endpoint, type TestResult } from '../api';
import { ActivityCard } from '../components/activity';
import { Empty, EndpointLink, Mark, When } from '../components/marks';
import { act } from '../components/notices';
import { Crumb, Loaded, Pager } from '../components/page';
import { SendTest, TestCard } from '../components/send-test';
import { now, useResource } from '../live';
import { place } from '../router';
import { count, endpointOf, span, t, word, type Key } from '../text';

export function EndpointsPage() {
  const { query } = place.value;
  const states: Query = [...query].filter(([name]) => name === 'state');
  const filter: Query = [...query];
  const at = (asked: Query) => address(['endpoints'], asked);
  const page = useResource(at(filter), (abort) => api.endpoints(filter, abort));
  const [testing, test] = useState<string>();
  const [result, setResult] = useState<TestResult & { url: string }>();
  return (
    <>
      <h1>{t('nav.endpoints')}</h1>
      <div class="toolbar">
        <States chosen={query.get('state')} />
        {mayChange.value && <button onClick={() => test('')}>{t('endpoint.sendTest')}</button>}
      </div>
      {result && <TestCard result={result} onClose={() => setResult(undefined)} />}
      <Loaded of={page}>{({ data }) => <Table endpoints={data} onTest={test} />}</Loaded>
      <Pager first={query.has('cursor') ? at(states) : null} next={page.data?.next_cursor && at([...states, ['cursor', page.data.next_cursor]])} />
      {testing !== undefined && <SendTest first={testing ? { url: `${endpointOf(testing)}/` } : {}} onClose={() => test(undefined)} onResult={setResult} />}
    </>
  );
}

/** One endpoint: its circuit, and its attempts of the last hour or day. */
export function EndpointPage({ endpoint }: { endpoint: string }) {
  const page = useResource(address(['endpoint', endpoint]), (abort) => api.endpoints([['endpoint', endpoint]], abort));
  const [testing, test] = useState<string>();
  const [result, setResult] = useState<TestResult & { url: string }>();
  return (
    <>
      <Crumb to="/endpoints">{t('nav.endpoints')}</Crumb>
      <h1>{endpoint}</h1>
      {result && <TestCard result={result} onClose={() => setResult(undefined)} />}
      <Loaded of={page}>{({ data }) => <Table endpoints={data} onTest={test} none="endpoint.idle" />}</Loaded>
      <ActivityCard of={[['endpoint', endpoint]]} />
      <p>
        <a href={jobsOf(endpoint)} data-page>
          {t('endpoint.jobs')}
        </a>
      </p>
      {testing !== undefined && <SendTest first={{ url: `${endpointOf(testing)}/` }} onClose={() => test(undefined)} onResult={setResult} />}
    </>
  );
}

function States({ chosen }: { chosen: string | null }) {
  return (
    <nav class="tabs" aria-label={t('job.state')}>
      <a href="/endpoints" data-page aria-current={chosen === null ? 'page' : undefined}>
        {t('state.all')}
      </a>
      {endpointStates.map((state) => (
        <a key={state} href={address(['endpoints'], [['state', state]])} data-page aria-current={chosen === state ? 'page' : undefined}>
          {t(`endpoint.${state}`)}
        </a>
      ))}
    </nav>
  );
}

function Table({ endpoints, onTest, none = 'endpoints.none' }: { endpoints: Endpoint[]; onTest: (endpoint: string) => void; none?: Key }) {
  if (endpoints.length === 0) return <Empty text={t(none)} />;
  return (
    <table class="endpoints">
      <thead>
        <tr>
          <th>{t('job.endpoint')}</th>
          <th>{t('job.state')}</th>
          <th class="number">{t('state.waiting')}</th>
          <th class="number">{t('overview.inFlight')}</th>
          <th>{t('endpoint.lastFailure')}</th>
          <th>{t('endpoint.lastSuccess')}</th>
          {mayChange.value && <th>{t('endpoint.actions')}</th>}
        </tr>
      </thead>
      <tbody>
        {endpoints.map((one) => (
          <Row key={one.endpoint} endpoint={one} onTest={onTest} />
        ))}
      </tbody>
    </table>
  );
}

const jobsOf = (endpoint: string, ...states: string[]): string =>
  address(['jobs'], [['endpoint', endpoint], ...states.map((state) => ['state', state] as const)]);

function Jobs({ label, n, to }: { label: string; n: number; to: string }) {
  return (
    <td data-label={label} class={n === 0 ? 'number none' : 'number'}>
      {n === 0 ? (
        <span class="muted">0</span>
      ) : (
        <a href={to} data-page>
          {count(n)}
        </a>
      )}
    </td>
  );
}

function Row({ endpoint: one, onTest }: { endpoint: Endpoint; onTest: (endpoint: string) => void }) {
  return (
    <tr>
      <td class="name">
        <EndpointLink url={one.endpoint} />
      </td>
      <td data-label={t('job.state')}>
        <Circuit endpoint={one} />
      </td>
      <Jobs label={t('state.waiting')} n={one.waiting + one.ready} to={jobsOf(one.endpoint, 'waiting', 'ready', 'retrying')} />
      <Jobs label={t('overview.inFlight')} n={one.in_flight} to={jobsOf(one.endpoint, 'running')} />
      <td data-label={t('endpoint.lastFailure')} class={one.last_failure_at ? undefined : 'none'}>
        {one.last_error && one.last_failure_at ? (
          <span>
            {word('error', one.last_error)}{' '}
            <span class="together">
              · <When at={one.last_failure_at} />
            </span>
            {one.failures !== null && one.failures > 1 && (
              <>
                {' '}
                <span class="muted">· {t('endpoint.failures', { n: count(one.failures) })}</span>
              </>
            )}
          </span>
        ) : (
          '–'
        )}
      </td>
      <td data-label={t('endpoint.lastSuccess')} class={one.last_success_at ? undefined : 'none'}>
        {one.last_success_at ? <When at={one.last_success_at} /> : '–'}
      </td>
      {mayChange.value && (
        <td>
          <div class="actions row">
            {one.state === 'open' && <button onClick={() => void act(() => api.tryEndpoint(one.endpoint), 'endpoint.tried')}>{t('endpoint.try')}</button>}
            <button onClick={() => onTest(one.endpoint)} aria-label={t('endpoint.testOf', { endpoint: one.endpoint })}>
              {t('endpoint.test')}
            </button>
          </div>
        </td>
      )}
    </tr>
  );
}

/** The state of an endpoint's circuit; while it is open, the time until it is half-open. */
function Circuit({ endpoint: { state, reopens_at: reopensAt } }: { endpoint: Endpoint }) {
  const left = reopensAt === null ? 0 : Date.parse(reopensAt) - now.value;
  return (
    <div>
      <Mark kind={`circuit-${state}`}>{t(`endpoint.${state}`)}</Mark>
      {left > 0 && (
        <div class="muted" role="timer">
          {t('endpoint.reopens', { span: span(Math.max(1000, left)) })}
        </div>
      )}
    </div>
  );
}
