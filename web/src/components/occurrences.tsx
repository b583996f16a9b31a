/** Occurrences of a schedule, in its zone and in UTC. */
import type { ComponentChildren } from 'preact';
import type { Occurrence, Timetable } from '../api';
import { span, t, weekday } from '../text';
import { When } from './marks';

/** A time of the API without what repeats in every row: the T, ms, and seconds of zero. */
const spaced = (time: string): string => time.replace('T', ' ').replace(/\.000/, '');

const timeOfDay = (local: string): string => local.slice(11, 19).replace(/:00$/, '');

/** The effect of a change of the zone's clock, in words. */
function effectOf({ effect, wanted, local }: Occurrence): string {
  if (effect === null) return '';
  return t(`occurrence.${effect}`, { time: timeOfDay(wanted ?? local) });
}

interface TableProps {
  occurrences: Occurrence[];
  timezone: string;
  /** What can be done to an occurrence. */
  act?: ((one: Occurrence) => ComponentChildren) | undefined;
}

export function OccurrenceTable({ occurrences, timezone, act }: TableProps) {
  const utc = timezone === 'UTC';
  return (
    <table class="timetable">
      <thead>
        <tr>
          <th>{timezone}</th>
          {!utc && <th>UTC</th>}
          <th>{t('occurrence.away')}</th>
          <th>{t('occurrence.remarks')}</th>
          {act && <th>{t('endpoint.actions')}</th>}
        </tr>
      </thead>
      <tbody>
        {occurrences.map((one) => {
          const remarks = remarksOf(one);
          return (
            <tr key={one.time}>
              <td class="mono">
                {weekday(one.local)} {spaced(one.local)}
              </td>
              {!utc && <td class="mono muted">{spaced(one.time)}</td>}
              <td class="away">
                <When at={one.time} />
              </td>
              <td class={remarks ? undefined : 'none'}>{remarks}</td>
              {act && <td class="act">{act(one)}</td>}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function remarksOf(one: Occurrence): string {
  const late = Date.parse(one.due_at) - Date.parse(one.time);
  return [one.skipped && t('outcome.skipped'), effectOf(one), late > 0 && t('occurrence.jitter', { span: span(late) })].filter(Boolean).join(' · ');
}

/** Local times that yield no occurrence. */
export function Omitted({ omitted }: Pick<Timetable, 'omitted'>) {
  if (omitted.length === 0) return null;
  return (
    <ul>
      {omitted.map(({ local, reason }) => (
        <li key={`${local} ${reason}`}>{t(`omitted.${reason}`, { local: spaced(local) })}</li>
      ))}
    </ul>
  );
}

const width = 200;

/** The next occurrences as marks on a line from the first to the last. */
export function Strip({ occurrences }: { occurrences: Occurrence[] }) {
  const [first] = occurrences;
  const last = occurrences[occurrences.length - 1];
  if (!first || !last) return null;
  const from = Date.parse(first.time);
  const length = Math.max(1, Date.parse(last.time) - from);
  const label = t('occurrence.strip', { n: occurrences.length, first: spaced(first.local), last: spaced(last.local) });
  return (
    <span class="strip">
      <svg viewBox={`0 0 ${width + 4} 22`} preserveAspectRatio="none" role="img" aria-label={label}>
        <line x1="0" x2={width + 4} y1="11" y2="11" />
        {occurrences.map((one) => (
          <rect key={one.time} class={one.effect || one.skipped ? 'changed' : undefined} x={((Date.parse(one.time) - from) / length) * width} y="3" width="4" height="16" rx="1">
            <title>{[spaced(one.local), effectOf(one)].filter(Boolean).join(' · ')}</title>
          </rect>
        ))}
      </svg>
      {occurrences.length > 1 && <span class="muted">{span(length)}</span>}
    </span>
  );
}
