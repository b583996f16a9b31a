import { address, type Query } from '../address';
import { api, mayChange, type Operation } from '../api';
import { Empty, When } from '../components/marks';
import { act } from '../components/notices';
import { Loaded, Pager } from '../components/page';
import { useBeat, useResource } from '../live';
import { place } from '../router';
import { filterOfBulk, written } from '../search';
import { count, exact, t } from '../text';

/** The server writes progress at this interval, without an event. */
const progressMs = 1000;

export function OperationsPage() {
  const cursor = place.value.query.get('cursor');
  const from: Query = cursor ? [['cursor', cursor]] : [];
  const operations = useResource(address(['operations'], from), (abort) => api.operations(from, abort));
  const running = operations.data?.data.some(({ state }) => state === 'running') ?? false;
  useBeat(progressMs, running);
  return (
    <>
      <h1>{t('nav.operations')}</h1>
      <Loaded of={operations}>
        {({ data, next_cursor: next }) => (
          <>
            <List operations={data} />
            <Pager first={cursor && '/operations'} next={next && address(['operations'], [['cursor', next]])} />
          </>
        )}
      </Loaded>
    </>
  );
}

function List({ operations }: { operations: Operation[] }) {
  if (operations.length === 0) return <Empty text={t('operations.none')} />;
  return operations.map((operation) => <Card key={operation.id} operation={operation} />);
}

function Card({ operation }: { operation: Operation }) {
  const { action, estimate, matched, state } = operation;
  const filter = filterOfBulk(operation.filter);
  return (
    <section class="card operation">
      <div class="standing">
        <h2>
          {t(`bulk.${action}`)} <span class={`progress ${state}`}>{t(`operation.${state}`)}</span>
        </h2>
        {mayChange.value && <Steering operation={operation} />}
      </div>
      <p>
        <a class="mono" href={address(['jobs'], filter)} data-page>
          {written(filter) || t('bulk.everything')}
        </a>
      </p>
      {operation.set && <p>{t('operation.set', { fields: operation.set.join(', ') })}</p>}
      {operation.reschedule_to && <p>{t('operation.to', { at: exact(operation.reschedule_to) })}</p>}
      <progress aria-label={t('operation.progress')} max={Math.max(1, estimate ?? matched)} value={progressOf(operation)} />
      <p class="muted">
        {estimate === null ? t('operation.examined', { matched: count(matched) }) : t('operation.examinedOf', { matched: count(matched), of: count(estimate) })}
        {t('operation.counts', {
          changed: count(operation.changed),
          skipped: count(operation.skipped),
          failed: count(operation.failed),
          rate: count(operation.rate),
        })}{' '}
        <When at={operation.created_at} />
        {operation.by && t('operation.by', { key: operation.by })}
      </p>
      {operation.reason && <p class="bad">{operation.reason}</p>}
      {operation.errors.length > 0 && (
        <ul>
          {operation.errors.map(({ topic, id, message }) => (
            <li key={`${topic}/${id}`}>
              <span class="mono">
                {topic}/{id}
              </span>: {message}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** The part that is done; undefined if nobody knows of how many. */
function progressOf({ estimate, matched, state }: Operation): number | undefined {
  if (state === 'done') return Math.max(1, estimate ?? matched);
  return estimate === null && state === 'running' ? undefined : matched;
}

/** Actions to stop and resume an operation. */
function Steering({ operation: { id, state } }: { operation: Operation }) {
  if (state === 'running') return <button onClick={() => void act(() => api.stop(id))}>{t('operation.stop')}</button>;
  if (state === 'stopped') return <button onClick={() => void act(() => api.resume(id))}>{t('operation.resume')}</button>;
  return null;
}
