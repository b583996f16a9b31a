/** The calendars whose dates schedules except. */
import { Fragment } from 'preact';
import { useState } from 'preact/hooks';
import { api, mayChange, type Calendar } from '../api';
import { count, t } from '../text';
import { Dialog } from './dialog';
import { Area, Input } from './form';
import { Paged } from './page';

/** A calendar, or one to be. */
type Draft = Pick<Calendar, 'name' | 'version' | 'dates'>;

const blank: Draft = { name: '', version: 0, dates: [] };

/** Dates, which do not break at their hyphens. */
export function Dates({ dates }: { dates: string[] }) {
  return (
    <>
      {dates.map((one, i) => (
        <Fragment key={one}>
          {i > 0 && ', '}
          <span class="whole">{one}</span>
        </Fragment>
      ))}
    </>
  );
}

/** The most dates named in a row. */
const mostDates = 6;

export function Calendars() {
  const [editing, edit] = useState<Draft>();
  const [deleting, remove] = useState<Calendar>();
  return (
    <section>
      <div class="toolbar">
        <h2>{t('nav.calendars')}</h2>
        {mayChange.value && <button onClick={() => edit(blank)}>{t('calendar.new')}</button>}
      </div>
      <Paged name="calendars" load={api.calendars} none={t('calendar.none')}>
        {(rows) => <List calendars={rows} edit={edit} remove={remove} />}
      </Paged>
      {editing && <Edit calendar={editing} onClose={() => edit(undefined)} />}
      {deleting && (
        <Dialog
          title={t('calendar.deleteOf', { calendar: deleting.name })}
          action={t('action.delete')}
          grave
          run={() => api.deleteCalendar(deleting.name)}
          done="calendar.deleted"
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
          {mayChange.value && <th>{t('endpoint.actions')}</th>}
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
              <Dates dates={one.dates.slice(0, mostDates)} />
              {one.dates.length > mostDates && ', …'}
            </td>
            {mayChange.value && (
              <td>
                <div class="actions row">
                  <button aria-label={`${t('action.edit')}: ${one.name}`} onClick={() => edit(one)}>
                    {t('action.edit')}
                  </button>
                  <button class="grave" aria-label={`${t('action.delete')}: ${one.name}`} onClick={() => remove(one)}>
                    {t('action.delete')}
                  </button>
                </div>
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
    return api.putCalendar(name.trim(), dates.split(/[\s,]+/).filter(Boolean), version);
  };
  return (
    <Dialog title={calendar.name || t('calendar.new')} action={t('action.save')} run={save} done="calendar.saved" onClose={onClose}>
      {!calendar.name && <Input label={t('setting.name')} required value={name} set={setName} placeholder="holidays" />}
      <Area label={t('schedule.dates')} rows={6} value={dates} set={setDates} placeholder={'2026-12-24/2026-12-26\n2027-01-01'} />
    </Dialog>
  );
}
