import { Fragment } from 'preact';
import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, mayChange, outcomes, type Occurrence, type Run, type Schedule } from '../api';
import { Dialog } from '../components/dialog';
import { Input, Moment } from '../components/form';
import { Result } from '../components/job-table';
import { Empty, PauseFacts, StateMark, When } from '../components/marks';
import { act } from '../components/notices';
import { OccurrenceTable, Omitted, Strip } from '../components/occurrences';
import { Crumb, Facts, Loaded, type Fact } from '../components/page';
import { useResource } from '../live';
import { navigate } from '../router';
import { clock, count, exact, span, t, word } from '../text';
import { At, Outcome, ScheduleMark, timesOf } from './schedules';

type Shown = Schedule & { next: Occurrence[] };

export function SchedulePage({ name }: { name: string }) {
  const schedule = useResource(`schedule ${name}`, (abort) => api.schedule(name, abort));
  return (
    <>
      <Crumb to="/schedules">{t('nav.schedules')}</Crumb>
      <h1>{name}</h1>
      <Loaded of={schedule}>{(found) => <Details schedule={found} />}</Loaded>
    </>
  );
}

function Details({ schedule }: { schedule: Shown }) {
  const { name, next, timezone, paused, last_error: error } = schedule;
  return (
    <>
      <section class="card">
        <div class="standing">
          <div>
            <ScheduleMark state={schedule.state} />
            <p class="big">
              {timesOf(schedule)}
              <span class="muted">{timezone}</span>
            </p>
            {paused && (
              <p>
                {t('schedule.since')} <At at={paused.since} />
                <PauseFacts pause={paused} />
              </p>
            )}
          </div>
          {mayChange.value && <Actions schedule={schedule} />}
        </div>
        {error && (
          <p class="bad error">
            <span lang="en">{error.message}</span> ({error.reason}) <At at={error.at} />
          </p>
        )}
      </section>
      <section>
        <h2>{t('schedule.strip')}</h2>
        {next.length > 0 ? (
          <>
            <Strip occurrences={next} />
            <OccurrenceTable occurrences={next} timezone={timezone} act={mayChange.value ? (one) => <SkipButton schedule={name} occurrence={one} /> : undefined} />
          </>
        ) : (
          <Empty text={t('schedule.noNext')} />
        )}
        {schedule.except && <ExceptedDays key={schedule.version} name={name} />}
      </section>
      <div class="cards">
        <Counters schedule={schedule} />
        <Settings schedule={schedule} />
      </div>
      <Runs name={name} />
      <p>
        <a href={address(['jobs'], [['schedule', name]])} data-page>
          {t('schedule.jobs')}
        </a>
      </p>
    </>
  );
}

/** Skips an occurrence, or takes that back. */
function SkipButton({ schedule, occurrence: { time, local, skipped } }: { schedule: string; occurrence: Occurrence }) {
  const call = skipped ? api.unskipOccurrence : api.skipOccurrence;
  const label = t(skipped ? 'schedule.unskip' : 'schedule.skip');
  return (
    <button class="quiet" aria-label={`${label}: ${local}`} onClick={() => void act(() => call(schedule, time), skipped ? 'schedule.wasUnskipped' : 'schedule.wasSkipped')}>
      {label}
    </button>
  );
}

/** The days without occurrences before the last of the next ones. */
function ExceptedDays({ name }: { name: string }) {
  const found = useResource(`timetable ${name}`, (abort) => api.timetable(name, abort));
  return found.data ? <Omitted omitted={found.data.omitted} /> : null;
}

/** The jobs that ended last, the last one first. */
function Runs({ name }: { name: string }) {
  const found = useResource(`runs ${name}`, (abort) => api.runs(name, abort));
  return (
    <section>
      <h2>{t('run.title')}</h2>
      <Loaded of={found}>{(runs) => (runs.length > 0 ? <RunTable runs={runs} /> : <Empty text={t('run.none')} />)}</Loaded>
    </section>
  );
}

function RunTable({ runs }: { runs: Run[] }) {
  return (
    <>
      <RunStrip runs={runs} />
      <table>
        <thead>
          <tr>
            <th>{t('run.planned')}</th>
            <th>{t('job.state')}</th>
            <th class="number">{t('job.attempts')}</th>
            <th class="number">{t('run.took')}</th>
            <th>{t('job.last')}</th>
            <th>{t('run.ended')}</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.uid}>
              <td class="name">
                <a href={address(['jobs', run.topic, run.id])} data-page title={exact(run.time)}>
                  {clock(Date.parse(run.time))}
                </a>
                {run.kind !== 'timetable' && <span class="tag">{t(`run.${run.kind}`)}</span>}
              </td>
              <td data-label={t('job.state')}>
                <StateMark state={run.outcome} />
              </td>
              <td data-label={t('job.attempts')} class="number">
                {count(run.attempts)}
              </td>
              <td data-label={t('run.took')} class="number">
                {run.duration_ms === null ? '–' : span(run.duration_ms)}
              </td>
              <td data-label={t('job.last')}>{run.started_at ? <Result attempt={run} /> : <span class="muted">{run.reason && word('reason', run.reason)}</span>}</td>
              <td data-label={t('run.ended')}>
                <When at={run.ended_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

const runHeight = 28;

/** A column for each run, the last one to the right: as high as its last attempt took, in the colour of its outcome. */
function RunStrip({ runs }: { runs: Run[] }) {
  const most = Math.max(1, ...runs.map(({ duration_ms: ms }) => ms ?? 0));
  const good = runs.filter(({ outcome }) => outcome === 'delivered').length;
  return (
    <svg class="runs" viewBox={`0 0 ${runs.length * 6} ${runHeight}`} height={runHeight} width={runs.length * 6} role="img" aria-label={t('run.summary', { good: count(good), all: count(runs.length) })}>
      {runs.toReversed().map((run, at) => {
        const height = 6 + ((runHeight - 6) * (run.duration_ms ?? 0)) / most;
        return (
          <rect key={run.uid} class={run.outcome} x={at * 6} y={runHeight - height} width="4" height={height} rx="1">
            <title>{`${clock(Date.parse(run.time))} · ${t(`state.${run.outcome}`)} · ${run.duration_ms === null ? '–' : span(run.duration_ms)}`}</title>
          </rect>
        );
      })}
    </svg>
  );
}

function Counters({ schedule: { counters, last } }: { schedule: Schedule }) {
  return (
    <section class="card facts settings">
      <h2>{t('schedule.counters')}</h2>
      <Facts
        facts={[
          ...outcomes.map((outcome): Fact => [t(`outcome.${outcome}`), count(counters[outcome])]),
          [
            t('schedule.last'),
            last && (
              <>
                <Outcome last={last} />{' '}
                {last.topic && last.id && (
                  <a href={address(['jobs', last.topic, last.id])} data-page>
                    {last.id}
                  </a>
                )}
              </>
            ),
            true,
          ],
        ]}
      />
    </section>
  );
}

/** Dates, which do not break at their hyphens. */
function Dates({ dates }: { dates: string[] }) {
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

function Settings({ schedule }: { schedule: Schedule }) {
  const { dst, job, misfire, overlap, except, start_at: start, end_at: end, anchor, max_occurrences: max, remaining } = schedule;
  return (
    <section class="card facts settings">
      <h2>{t('job.facts')}</h2>
      <Facts
        facts={[
          [t('job.request'), job.group ? `${job.method} ${job.group}` : job.url === null ? t('job.pull') : `${job.method} ${job.url}`, true],
          [
            t('register.topic'),
            <a href={address(['topics', job.topic])} data-page>
              {job.topic}
            </a>,
          ],
          [t('schedule.dst_gap'), dst && t(`gap.${dst.gap}`)],
          [t('schedule.dst_repeat'), dst && t(`repeat.${dst.repeat}`)],
          [t('schedule.jitter'), schedule.jitter],
          [t('schedule.misfire'), t(`misfire.${misfire.policy}`)],
          [t('schedule.overlap'), t(`overlap.${overlap}`)],
          [t('schedule.dates'), except?.dates?.length && <Dates dates={except.dates} />],
          [t('schedule.start_at'), start && exact(start)],
          [t('schedule.end_at'), end && exact(end)],
          [t('schedule.anchor'), anchor && exact(anchor)],
          [t('schedule.remaining'), max !== null && `${count(remaining ?? 0)} / ${count(max)}`],
          [t('schedule.tzdata'), schedule.tzdata],
        ]}
      />
    </section>
  );
}

function Actions({ schedule: { name, state } }: { schedule: Schedule }) {
  const [asking, ask] = useState<'pause' | 'delete'>();
  const remove = async () => {
    await api.deleteSchedule(name);
    navigate('/schedules');
  };
  return (
    <div class="actions">
      <button onClick={() => void act(() => api.runSchedule(name), 'schedule.wasRun')}>{t('action.run')}</button>
      {state === 'active' && <button onClick={() => ask('pause')}>{t('schedule.pause')}</button>}
      {state === 'paused' && <button onClick={() => void act(() => api.resumeSchedule(name), 'schedule.wasResumed')}>{t('schedule.resume')}</button>}
      <a class="button" href={address(['schedules', name, 'edit'])} data-page>
        {t('action.edit')}
      </a>
      <button class="grave" onClick={() => ask('delete')}>
        {t('action.delete')}
      </button>
      {asking === 'pause' && <Pause name={name} onClose={() => ask(undefined)} />}
      {asking === 'delete' && (
        <Dialog title={t('schedule.deleteOf', { schedule: name })} action={t('action.delete')} grave run={remove} done="schedule.deleted" onClose={() => ask(undefined)}>
          <p>{t('schedule.deleteExplain')}</p>
        </Dialog>
      )}
    </div>
  );
}

function Pause({ name, onClose }: { name: string; onClose: () => void }) {
  const [note, setNote] = useState('');
  const [until, setUntil] = useState('');
  const pause = { ...(until && { until: new Date(until).toISOString() }), ...(note.trim() && { note: note.trim() }) };
  return (
    <Dialog
      title={t('schedule.pauseOf', { schedule: name })}
      action={t('schedule.pause')}
      run={() => api.pauseSchedule(name, pause)}
      done="schedule.wasPaused"
      onClose={onClose}
    >
      <p>{t('schedule.pauseExplain')}</p>
      <Moment label={t('schedule.until')} value={until} set={setUntil} />
      <Input label={t('schedule.note')} value={note} set={setNote} />
    </Dialog>
  );
}
