/** Callbacks: fields of a form, and what a job has. */
import { address } from '../address';
import { callbackEvents, type CallbackEvent, type Callbacks, type JobDetails } from '../api';
import { t, type Key } from '../text';
import { Group, Input, retryOf, type FieldProps } from './form';
import { Target } from './marks';
import { lines, type Fact } from './page';

/** The fields of a form, as typed. */
export const blankCallbacks = {
  callback_delivered: '',
  callback_dead: '',
  callback_expired: '',
  callback_cancelled: '',
  callback_attempt_failed: '',
  callback_steps: '',
  callback_limit: '',
};
export type CallbackDraft = typeof blankCallbacks;

interface Props {
  field: (name: keyof CallbackDraft, pointer: string, label: string) => FieldProps;
  hint: Key;
}

export function CallbackFields({ field, hint }: Props) {
  return (
    <Group title={t('callback.title')} hint={t(hint)}>
      {callbackEvents.map((event) => (
        <Input key={event} {...field(`callback_${event}`, `/callbacks/${event}`, t(`callbackOn.${event}`))} placeholder="https://shop.example/done" />
      ))}
      <Input {...field('callback_steps', '/callbacks/retry/steps', t('callback.steps'))} placeholder="10s 1m 10m" />
      <Input {...field('callback_limit', '/callbacks/retry/limit', t('callback.limit'))} placeholder="3" />
    </Group>
  );
}

/** Callbacks for the API, or undefined if no field is filled. What the form does not show of stored ones stays. */
export function callbacksOf(draft: CallbackDraft, stored?: Callbacks | null): Record<string, unknown> | undefined {
  const { callback_steps: steps, callback_limit: limit } = draft;
  const on = callbackEvents
    .map((event) => [event, draft[`callback_${event}`].trim()] as const)
    .filter(([, url]) => url)
    .map(([event, url]) => [event, { ...stored?.[event], url }]);
  const retry = steps.trim() || limit.trim() ? [['retry', retryOf(steps, limit)]] : [];
  const request = on.length > 0 && stored?.include_request ? [['include_request', true]] : [];
  return on.length + retry.length > 0 ? (Object.fromEntries([...on, ...retry, ...request]) as Record<string, unknown>) : undefined;
}

/** Stored callbacks as fields. */
export const typedCallbacks = (stored: Callbacks | null | undefined): CallbackDraft => ({
  ...(Object.fromEntries(callbackEvents.map((event) => [`callback_${event}`, stored?.[event]?.url ?? ''])) as CallbackDraft),
  callback_steps: (stored?.retry?.steps ?? []).join(' '),
  callback_limit: String(stored?.retry?.limit ?? ''),
});

const eventName = (event: CallbackEvent): string => t(event === 'attempt_failed' ? `callback.${event}` : `state.${event}`);

/** The callbacks that a job asks for, the jobs made for them, and the job that a callback reports. */
export function callbackFacts(job: JobDetails): Fact[] {
  const { callback_jobs: made = [], callback_of: of } = job;
  const asked = callbackEvents.flatMap((event) => {
    const to = job.callbacks?.[event];
    return to ? [{ event, to }] : [];
  });
  return [
    [
      t('callback.of'),
      of && (
        <>
          <a href={address(['jobs', job.topic, of.id])} data-page>
            {of.id}
          </a>{' '}
          <span class="muted">{eventName(of.event)}</span>
        </>
      ),
    ],
    [
      t('callback.asked'),
      lines(asked, ({ event, to }) => (
        <>
          {eventName(event)} <Target url={to.url} whole />
        </>
      )),
    ],
    [
      t('callback.made'),
      lines(made, ({ event, id }) => (
        <a href={address(['jobs', job.topic, id])} data-page>
          {eventName(event)}
          {number(id)}
        </a>
      )),
    ],
  ];
}

/** The numbers at the end of a callback's id, of the attempt and of the round. */
const number = (id: string): string => (/\.[\d.]+$/.exec(id) ?? [''])[0].replace('.', ' ');
