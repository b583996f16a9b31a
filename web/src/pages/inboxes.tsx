import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, mayChange, type Inbox, type InboxRow } from '../api';
import { Dialog } from '../components/dialog';
import { Verbatim, When } from '../components/marks';
import { act } from '../components/notices';
import { Crumb, Paged, Writable } from '../components/page';
import { useBeat } from '../live';
import { count, t } from '../text';

/** Rows come and go without an event. */
const readMs = 5000;

/** Counts end here. */
const mostCounted = 10_000;

/** The tables in databases of applications whose rows become jobs. */
export function InboxesPage() {
  useBeat(readMs);
  return (
    <>
      <h1>{t('nav.inboxes')}</h1>
      <Paged name="inboxes" load={api.inboxes} none={t('inbox.none')}>
        {(inboxes) => <Table inboxes={inboxes} />}
      </Paged>
    </>
  );
}

const rows = (n: number): string => count(n) + (n >= mostCounted ? '+' : '');

function Table({ inboxes }: { inboxes: Inbox[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th>{t('inbox.name')}</th>
          <th class="number">{t('inbox.fresh')}</th>
          <th class="number">{t('inbox.waiting')}</th>
          <th class="number">{t('inbox.failed')}</th>
          <th>{t('inbox.error')}</th>
        </tr>
      </thead>
      <tbody>
        {inboxes.map(({ name, database, fresh, waiting, failed, error }) => (
          <tr key={name}>
            <td class="name">
              <a href={address(['inboxes', name])} data-page>
                {name}
              </a>
              <span class="muted">{database}</span>
            </td>
            <td data-label={t('inbox.fresh')} class="number">
              {rows(fresh)}
            </td>
            <td data-label={t('inbox.waiting')} class="number">
              {rows(waiting)}
            </td>
            <td data-label={t('inbox.failed')} class={failed > 0 ? 'number bad' : 'number'}>
              {rows(failed)}
            </td>
            <td data-label={t('inbox.error')}>{error && <span class="bad">{error}</span>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The rows of an inbox that are set aside. */
export function InboxPage({ name }: { name: string }) {
  useBeat(readMs, mayChange.value);
  return (
    <>
      <Crumb to="/inboxes">{t('nav.inboxes')}</Crumb>
      <h1>{name}</h1>
      <Writable>
        {(['failed', 'waiting'] as const).map((state) => (
          <section key={state}>
            <h2>{t(`inbox.${state}Rows`)}</h2>
            <Paged name={`${state} rows of ${name}`} load={(query, abort) => api.inboxRows(name, [['state', state], ...query], abort)} none={t(`inbox.${state}None`)}>
              {(found) => (
                <>
                  {state === 'failed' && <Failed inbox={name} />}
                  {found.map((row) => (
                    <Card key={row.id} inbox={name} row={row} />
                  ))}
                </>
              )}
            </Paged>
          </section>
        ))}
      </Writable>
    </>
  );
}

function Card({ inbox, row: { id, created_at, error, request, waits_for } }: { inbox: string; row: InboxRow }) {
  return (
    <section class="card operation">
      <div class="standing">
        <h3>
          {t('inbox.row', { id })}{' '}
          <span class="muted">
            <When at={created_at} />
          </span>
        </h3>
        {error && <Failed inbox={inbox} id={id} />}
      </div>
      <p class={error ? 'bad' : 'muted'}>{error ?? t('inbox.waitsFor', { name: waits_for ?? '' })}</p>
      <Verbatim text={request} />
    </section>
  );
}

/** What an operator does with a failed row, or with all. */
function Failed({ inbox, id }: { inbox: string; id?: number }) {
  const [dropping, drop] = useState(false);
  const which = id === undefined ? { all: true } : { ids: [id] };
  return (
    <div class="actions end">
      <button onClick={() => void act(() => api.retryRows(inbox, which), 'inbox.retried')}>{t(id === undefined ? 'inbox.retryAll' : 'inbox.retry')}</button>
      <button class="grave" onClick={() => drop(true)}>
        {t(id === undefined ? 'inbox.dropAll' : 'inbox.drop')}
      </button>
      {dropping && (
        <Dialog
          title={id === undefined ? t('inbox.dropAllOf', { inbox }) : t('inbox.dropOf', { id })}
          action={t('inbox.drop')}
          grave
          run={() => api.dropRows(inbox, which)}
          done="inbox.dropped"
          onClose={() => drop(false)}
        >
          <p>{t('inbox.dropExplain')}</p>
        </Dialog>
      )}
    </div>
  );
}
