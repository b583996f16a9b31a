import { address, type Query } from '../address';
import { api, mayChange, scheduleStates, type ListedSchedule, type Schedule, type ScheduleState } from '../api';
import { Empty, Mark, When } from '../components/marks';
import { Strip } from '../components/occurrences';
import { Loaded, Pager } from '../components/page';
import { useResource } from '../live';
import { place } from '../router';
import { clock, t, word } from '../text';

/** Each row asks for its own occurrences, so a page is short. */
const perPage = '20';

const asking = (state: string | null, cursor: string | null = null): Query =>
  [['state', state ?? ''] as const, ['cursor', cursor ?? ''] as const].filter(([, value]) => value);

const at = (state: string | null, cursor: string | null = null): string => address(['schedules'], asking(state, cursor));

export function SchedulesPage() {
  const { query } = place.value;
  const state = query.get('state');
  const cursor = query.get('cursor');
  const schedules = useResource(at(state, cursor), (abort) => api.schedules([...asking(state, cursor), ['limit', perPage]], abort));
  const next = schedules.data?.next_cursor;
  return (
    <>
      <h1>{t('nav.schedules')}</h1>
      <div class="toolbar">
        <StateTabs chosen={state} />
        {mayChange.value && (
          <a class="button" href="/schedules?new" data-page>
            {t('schedule.new')}
          </a>
        )}
      </div>
      <Loaded of={schedules}>{({ data }) => <List schedules={data} filtered={state !== null} />}</Loaded>
      <Pager first={cursor && at(state)} next={next && at(state, next)} />
    </>
  );
}

function StateTabs({ chosen }: { chosen: string | null }) {
  return (
    <nav class="tabs" aria-label={t('job.state')}>
      <a href="/schedules" data-page aria-current={chosen === null ? 'true' : undefined}>
        {t('state.all')}
      </a>
      {scheduleStates.map((state) => (
        <a key={state} href={at(state)} data-page aria-current={chosen === state ? 'true' : undefined}>
          {t(`schedule.${state}`)}
        </a>
      ))}
    </nav>
  );
}

function List({ schedules, filtered }: { schedules: ListedSchedule[]; filtered: boolean }) {
  if (schedules.length === 0) return <Empty text={t(filtered ? 'schedule.noMatch' : 'schedule.none')} />;
  return (
    <table class="schedules">
      <thead>
        <tr>
          <th>{t('schedule.schedule')}</th>
          <th>{t('schedule.times')}</th>
          <th>{t('schedule.next')}</th>
          <th>{t('schedule.strip')}</th>
          <th>{t('schedule.last')}</th>
        </tr>
      </thead>
      <tbody>
        {schedules.map((one) => (
          <Row key={one.name} schedule={one} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ schedule }: { schedule: ListedSchedule }) {
  const { name, state, timezone, last } = schedule;
  const next = state === 'paused' ? null : schedule.next_at;
  return (
    <tr>
      <td class="name">
        <a href={address(['schedules', name])} data-page>
          {name}
        </a>
        <ScheduleMark state={state} />
        {schedule.paused?.note && <span class="muted">{schedule.paused.note}</span>}
      </td>
      <td data-label={t('schedule.times')}>
        <span>
          <span class="mono">{timesOf(schedule)}</span> <span class="muted">{timezone}</span>
        </span>
      </td>
      <td data-label={t('schedule.next')} class={next ? undefined : 'none'}>
        {next ? <At at={next} /> : <span class="muted">–</span>}
      </td>
      <td data-label={t('schedule.strip')} class={next ? undefined : 'none'}>
        {next && <NextStrip name={name} next={next} version={schedule.version} />}
      </td>
      <td data-label={t('schedule.last')} class={last ? undefined : 'none'}>
        {last ? <Outcome last={last} /> : <span class="muted">–</span>}
      </td>
    </tr>
  );
}

/** Asks again only when the schedule or its next occurrence has changed. */
function NextStrip({ name, next, version }: { name: string; next: string; version: number }) {
  const found = useResource(`strip ${name} ${version} ${next}`, (abort) => api.occurrences(name, abort), true);
  return found.data ? <Strip occurrences={found.data} /> : null;
}

export const ScheduleMark = ({ state }: { state: ScheduleState }) => <Mark kind={`schedule-${state}`}>{t(`schedule.${state}`)}</Mark>;

/** The expression, or the interval in words. */
export const timesOf = ({ cron, every }: Pick<Schedule, 'cron' | 'every'>): string => cron ?? t('schedule.everyOf', { every: every ?? '' });

/** A time relative to now and by the viewer's clock. */
export function At({ at: time }: { at: string }) {
  return (
    <span>
      <When at={time} /> <span class="muted">{clock(Date.parse(time))}</span>
    </span>
  );
}

/** What became of the last occurrence. */
export function Outcome({ last }: { last: NonNullable<Schedule['last']> }) {
  const good = last.outcome === 'fired';
  return (
    <span>
      <span class={good ? 'result good' : 'result bad'}>{word('outcome', last.outcome)}</span>
      {last.reason && ` (${word('outcome', last.reason)})`} <When at={last.time} />
    </span>
  );
}
