/** The calendars whose dates schedules except. */
import { useState } from 'preact/hooks';
import { api, mayChange, type Calendar } from '../api';
import { refresh, useResource } from '../live';
import { count, t, type Key } from '../text';
import { Dialog } from './dialog';
import { Empty, More, mostRows } from './marks';
import { notify, notifyError } from './notices';
import { ProblemNote } from './problem';

/** A calendar, or one to be. */
type Draft = Pick<Calendar, 'name' | 'version' | 'dates'>;

const blank: Draft = { name: '', version: 0, dates: [] };

/** The most dates named in a row. */
const mostDates = 6;

export function Calendars() {
  const calendars = useResource('calendars', api.calendars);
  const [editing, edit] = useState<Draft>();
  const [deleting, remove] = useState<Calendar>();
  const all = calendars.data?.data ?? [];
  return (
    <section>
      <h2>{t('nav.calendars')}</h2>
      {calendars.error && <ProblemNote error={calendars.error} />}
      {calendars.data && all.length === 0 && <Empty text={t('calendar.none')} />}
      {all.length > 0 && <List calendars={all.slice(0, mostRows)} edit={edit} remove={remove} />}
      <More of={all.length} />
      {mayChange.value && (
        <div class="actions">
          <button onClick={() => edit(blank)}>{t('calendar.new')}</button>
        </div>
      )}
      {editing && <Edit calendar={editing} onClose={() => edit(undefined)} />}
      {deleting && (
        <Dialog
          title={t('calendar.deleteOf', { calendar: deleting.name })}
          action={t('action.delete')}
          grave
          onSubmit={() => void act(() => api.deleteCalendar(deleting.name), 'calendar.deleted')}
          onClose={() => remove(undefined)}
        />
      )}
    </section>
  );
}

interface ListProps {
  calendars: Calendar[];
  edit: (one: Calendar) => void;
  remove: (one: Calendar) => void;
}

function List({ calendars, edit, remove }: ListProps) {
  return (
    <table>
      <thead>
        <tr>
          <th>{t('calendar.calendar')}</th>
          <th class="number">{t('calendar.number')}</th>
          <th>{t('schedule.dates')}</th>
          {mayChange.value && <th>{t('calendar.change')}</th>}
        </tr>
      </thead>
      <tbody>
        {calendars.map((one) => (
          <tr key={one.name}>
            <td class="name">{one.name}</td>
            <td class="number" data-label={t('calendar.number')}>
              {count(one.dates.length)}
            </td>
            <td data-label={t('schedule.dates')}>
              {one.dates.slice(0, mostDates).join(', ')}
              {one.dates.length > mostDates && ', …'}
            </td>
            {mayChange.value && (
              <td data-label={t('calendar.change')}>
                <button class="quiet" aria-label={`${t('action.edit')}: ${one.name}`} onClick={() => edit(one)}>
                  {t('action.edit')}
                </button>
                <button class="quiet" aria-label={`${t('action.delete')}: ${one.name}`} onClick={() => remove(one)}>
                  {t('action.delete')}
                </button>
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Edit({ calendar, onClose }: { calendar: Draft; onClose: () => void }) {
  const [name, setName] = useState(calendar.name);
  const [dates, setDates] = useState(calendar.dates.join('\n'));
  const save = () => {
    const version = calendar.version ? `"${calendar.version}"` : undefined;
    return act(() => api.putCalendar(name.trim(), dates.split(/[\s,]+/).filter(Boolean), version), 'calendar.saved');
  };
  return (
    <Dialog title={calendar.name || t('calendar.new')} action={t('action.save')} onSubmit={() => void save()} onClose={onClose}>
      {!calendar.name && (
        <label class="field">
          <span>{t('setting.name')}</span>
          <input required value={name} placeholder="holidays" onInput={(e) => setName(e.currentTarget.value)} />
        </label>
      )}
      <label class="field">
        <span>{t('schedule.dates')}</span>
        <textarea rows={6} value={dates} placeholder={'2026-12-24/2026-12-26\n2027-01-01'} onInput={(e) => setDates(e.currentTarget.value)} />
      </label>
    </Dialog>
  );
}

async function act(call: () => Promise<unknown>, done: Key): Promise<void> {
  try {
    await call();
    notify(t(done));
  } catch (error) {
    notifyError(error);
  } finally {
    refresh();
  }
}
