import { address } from '../address';
import { api, mayChange, type Operation } from '../api';
import { Empty, Loading, When } from '../components/marks';
import { notifyError } from '../components/notices';
import { ProblemNote } from '../components/problem';
import { refresh, useBeat, useResource } from '../live';
import { filterOfBulk, written } from '../search';
import { count, t } from '../text';

/** The server writes progress at this interval, without an event. */
const progressMs = 1000;

export function OperationsPage() {
  const operations = useResource('operations', api.operations);
  const running = operations.data?.some(({ state }) => state === 'running') ?? false;
  useBeat(progressMs, running);
  return (
    <>
      <h1>{t('nav.operations')}</h1>
      {operations.error && <ProblemNote error={operations.error} />}
      {operations.data ? <List operations={operations.data} /> : !operations.error && <Loading />}
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
      {operation.span && <p>{t('operation.span', operation.span)}</p>}
      <progress aria-label={t('operation.progress')} max={Math.max(1, estimate ?? matched)} value={state === 'done' ? Math.max(1, estimate ?? matched) : matched} />
      <p class="muted">
        {t('operation.counts', {
          matched: count(matched),
          of: estimate === null ? '?' : count(estimate),
          changed: count(operation.changed),
          skipped: count(operation.skipped),
          failed: count(operation.failed),
          rate: count(operation.rate),
        })}{' '}
        <When at={operation.created_at} />
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

/** Actions to stop and resume an operation. */
function Steering({ operation: { id, state } }: { operation: Operation }) {
  const steer = async (call: (id: string) => Promise<Operation>) => {
    try {
      await call(id);
    } catch (error) {
      notifyError(error);
    }
    refresh();
  };
  if (state === 'running') return <button onClick={() => void steer(api.stop)}>{t('operation.stop')}</button>;
  if (state === 'stopped') return <button onClick={() => void steer(api.resume)}>{t('operation.resume')}</button>;
  return null;
}
