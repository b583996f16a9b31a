import { useEffect, useState } from 'preact/hooks';
import { address } from '../address';
import { api, gapRules, misfirePolicies, overlapPolicies, repeatRules, type ApiError, type Callbacks, type Timetable } from '../api';
import { blankCallbacks, CallbackFields, callbacksOf, typedCallbacks, type CallbackDraft } from '../components/callbacks';
import { Area, Choice, figure, Fold, Form, given, Group, headersOf, headersText, Input, Moment, useForm, wrongAt, type FieldProps } from '../components/form';
import { notify } from '../components/notices';
import { OccurrenceTable, Omitted } from '../components/occurrences';
import { Crumb, Loaded, Writable } from '../components/page';
import { describe } from '../components/problem';
import { isJSON, member } from '../json';
import { useResource, type Resource } from '../live';
import { navigate } from '../router';
import { t, type Key } from '../text';

/** The pause after typing before a preview, in ms. */
const typingMs = 300;

/** The fields of the form, as typed. */
const blank = {
  name: '',
  cron: '',
  every: '',
  anchor: '',
  timezone: '',
  dst_gap: '',
  dst_repeat: '',
  start_at: '',
  end_at: '',
  max_occurrences: '',
  jitter: '',
  spread: '',
  misfire: '',
  grace: '',
  overlap: '',
  dates: '',
  url: '',
  group: '',
  topic: '',
  order_key: '',
  method: '',
  headers: '',
  body: '',
  ...blankCallbacks,
};
type Draft = typeof blank;

/** The pointers of the API. */
const pointers: Record<Exclude<keyof Draft, keyof CallbackDraft>, string> = {
  name: '/schedule',
  cron: '/cron',
  every: '/every',
  anchor: '/anchor',
  timezone: '/timezone',
  dst_gap: '/dst/gap',
  dst_repeat: '/dst/repeat',
  start_at: '/start_at',
  end_at: '/end_at',
  max_occurrences: '/max_occurrences',
  jitter: '/jitter',
  spread: '/job/spread',
  misfire: '/misfire/policy',
  grace: '/misfire/grace',
  overlap: '/overlap',
  dates: '/except/dates',
  url: '/job/url',
  group: '/job/group',
  topic: '/job/topic',
  order_key: '/job/order_key',
  method: '/job/method',
  headers: '/job/headers',
  body: '/job/body',
};

/** The fields that are always shown; the others are folded. */
const shown = ['name', 'cron', 'every', 'timezone', 'url', 'topic', 'body'] as const satisfies readonly (keyof typeof pointers)[];
const shownPointers = shown.map((name) => pointers[name]);

/** Whether an error is that of a folded field. */
const folded = (error: ApiError | undefined): boolean => error?.problem.errors.some(({ pointer }) => !shownPointers.some((one) => pointer.startsWith(one))) ?? false;

/** Callbacks have groups of fields. */
const knownPointers = [...Object.values(pointers), '/job/callbacks'];

/** What a schedule was set with. */
interface Registered {
  draft: Draft;
  /** The members of its job without a field in this form. */
  rest: Record<string, unknown>;
  callbacks?: Callbacks | undefined;
}

/** Creates a schedule or changes it. */
export function ScheduleFormPage({ name }: { name?: string | undefined }) {
  return (
    <>
      <Crumb to={name ? address(['schedules', name]) : '/schedules'}>{name ?? t('nav.schedules')}</Crumb>
      <Writable>{name === undefined ? <ScheduleForm from={{ draft: blank, rest: {} }} /> : <Stored name={name} />}</Writable>
    </>
  );
}

/** Loaded once, so that later changes do not overwrite the input. */
function Stored({ name }: { name: string }) {
  const found = useResource(`edit schedule ${name}`, (abort) => api.scheduleToEdit(name, abort), true);
  return <Loaded of={found}>{({ content, version }) => <ScheduleForm name={name} from={typed(name, content)} version={version} />}</Loaded>;
}

interface FormProps {
  name?: string;
  from: Registered;
  version?: string | undefined;
}

function ScheduleForm({ name, from: { draft: initial, rest, callbacks }, version }: FormProps) {
  const form = useForm(initial);
  const [from, setFrom] = useState('');
  const preview = usePreview(form.draft, from);
  const field = (of: keyof typeof pointers, label: Key): FieldProps => {
    const { wrong, ...props } = form.field(of, pointers[of], t(label));
    return { ...props, wrong: wrong?.length ? wrong : wrongAt(preview.error, pointers[of]) };
  };
  const set = (of: keyof typeof pointers) => field(of, `schedule.${of}` as Key);
  const submit = () =>
    form.ask(async () => {
      const to = name ?? form.draft.name.trim();
      await api.putSchedule(to, requestOf(form.draft, rest, callbacks), version);
      notify(t('schedule.saved'));
      navigate(address(['schedules', to]));
    });
  return (
    <Form title={name ? t('schedule.edit', { schedule: name }) : t('schedule.new')} error={form.error} onSubmit={() => void submit()}>
      <Group title={t('schedule.times')} hint={t('schedule.timesHint')} wrong={withoutField(form.error)}>
        {name === undefined && <Input {...set('name')} required placeholder="nightly" />}
        <Input {...set('cron')} placeholder="30 2 * * MON-FRI" />
        <Input {...set('every')} placeholder="90s" />
        <Input {...set('timezone')} list="zones" placeholder="UTC" />
        <Zones />
      </Group>
      <section class="card preview">
        <h2>{t('schedule.preview')}</h2>
        <Moment label={t('schedule.from')} value={from} set={setFrom} wrong={wrongAt(preview.error, '/from')} />
        <Preview preview={preview} />
      </section>
      <Group title={t('register.what')}>
        <Input {...field('url', 'register.url')} required={rest['pull'] !== true && !form.draft.group.trim()} wide placeholder="https://shop.example/hooks/report" />
        <Input {...field('topic', 'register.topic')} placeholder="default" />
        {rest['body_base64'] === undefined && <Area {...field('body', 'register.body')} placeholder={'{"kind": "daily"}'} />}
      </Group>
      <Fold filled={Object.entries(initial).some(([name, value]) => value !== '' && !shown.includes(name as (typeof shown)[number]))} wrong={folded(form.error) || folded(preview.error)}>
        <Group title={t('schedule.more')}>
          <Choice {...set('dst_gap')} options={gapRules} show={(rule) => t(`gap.${rule}` as Key)} />
          <Choice {...set('dst_repeat')} options={repeatRules} show={(rule) => t(`repeat.${rule}` as Key)} />
          <Input {...set('jitter')} placeholder="10m" />
          <Input {...field('spread', 'register.spread')} placeholder="5m" />
          <Input {...set('start_at')} placeholder="2027-01-01T00:00:00Z" />
          <Input {...set('end_at')} placeholder="2028-01-01T00:00:00Z" />
          <Input {...set('anchor')} placeholder="2027-01-01T00:00:00Z" />
          <Input {...set('max_occurrences')} placeholder={t('setting.none')} />
          <Input {...set('dates')} wide placeholder="2026-12-24/2026-12-26, 2027-01-01" />
        </Group>
        <Group title={t('schedule.exceptions')}>
          <Choice {...set('misfire')} options={misfirePolicies} show={(policy) => t(`misfire.${policy}` as Key)} />
          <Input {...set('grace')} placeholder="60s" />
          <Choice {...set('overlap')} options={overlapPolicies} show={(policy) => t(`overlap.${policy}` as Key)} />
        </Group>
        <Group title={t('register.request')}>
          <Input {...field('group', 'register.group')} placeholder="order-events" />
          <Input {...field('order_key', 'register.order_key')} placeholder="customer-8812" />
          <Input {...set('method')} placeholder="POST" />
          <Area {...field('headers', 'register.headers')} placeholder="x-tenant: acme" />
        </Group>
        <CallbackFields field={(of, pointer, label) => form.field(of, `/job${pointer}`, label)} hint="callback.hint" />
      </Fold>
      <div class="actions">
        <button class="primary">{t('action.save')}</button>
      </div>
    </Form>
  );
}

/** The zones that the browser knows. */
function Zones() {
  const [names] = useState(() => [...new Set(['UTC', ...Intl.supportedValuesOf('timeZone')])]);
  return (
    <datalist id="zones">
      {names.map((name) => (
        <option key={name} value={name} />
      ))}
    </datalist>
  );
}

/** Computes the occurrences a moment after the last change of the form. */
function usePreview(draft: Draft, from: string): Resource<Timetable | undefined> {
  const latest = draft.cron.trim() || draft.every.trim() ? JSON.stringify(previewOf(draft, from)) : '';
  const [request, ask] = useState(latest);
  useEffect(() => {
    const timer = setTimeout(() => ask(latest), typingMs);
    return () => clearTimeout(timer);
  }, [latest]);
  return useResource(
    `preview ${request}`,
    async (abort) => (request ? api.previewSchedule(JSON.parse(request) as Record<string, unknown>, abort) : undefined),
    true,
  );
}

function Preview({ preview: { data, error } }: { preview: Resource<Timetable | undefined> }) {
  if (error) return <p class="bad error">{describe(error)}</p>;
  if (!data) return <p class="muted">{t('schedule.noPreview')}</p>;
  if (data.data.length === 0) return <p class="muted">{t('schedule.noNext')}</p>;
  return (
    <>
      <OccurrenceTable occurrences={data.data} timezone={data.timezone} />
      <Omitted omitted={data.omitted} />
    </>
  );
}

/** The errors that belong to no field. */
const withoutField = (error: ApiError | undefined): string[] | undefined =>
  error?.problem.errors
    .filter(({ pointer }) => !knownPointers.some((known) => pointer === known || pointer.startsWith(`${known}/`)))
    .map(({ pointer, message }) => `${pointer.slice(1)} ${message}`);

/** Words that commas or spaces separate. */
const words = (typed: string): string[] => typed.split(/[\s,]+/).filter(Boolean);

/** The members of the request without the job, and without empty fields. */
function timesOf(draft: Draft): Record<string, unknown> {
  const { cron, every, anchor, timezone, start_at, end_at, jitter, overlap, grace } = draft;
  const dst = given({ gap: draft.dst_gap, repeat: draft.dst_repeat });
  const misfire = given({ policy: draft.misfire, grace });
  const dates = words(draft.dates);
  return {
    ...(dates.length > 0 ? { except: { dates } } : {}),
    ...given({ cron, every, anchor, timezone, start_at, end_at, jitter, overlap }),
    ...(Object.keys(dst).length > 0 ? { dst } : {}),
    ...(Object.keys(misfire).length > 0 ? { misfire } : {}),
    ...(draft.max_occurrences.trim() ? { max_occurrences: figure(draft.max_occurrences) } : {}),
  };
}

const previewOf = (draft: Draft, from: string): Record<string, unknown> => ({
  ...timesOf(draft),
  ...given({ schedule: draft.name.trim() }),
  ...(draft.spread.trim() && (URL.canParse(draft.url) || draft.group.trim()) ? { job: given({ url: draft.url, group: draft.group, spread: draft.spread }) } : {}),
  ...(from ? { from: new Date(from).toISOString() } : {}),
});

/** The request as text, with the body as typed. */
function requestOf(draft: Draft, rest: Record<string, unknown>, stored: Callbacks | undefined): string {
  const { url, group, topic, order_key, method, spread, headers, body } = draft;
  const none = stored && Object.keys(stored).length === 0 ? stored : undefined; // {} keeps the topic's away
  const callbacks = callbacksOf(draft, stored) ?? none;
  const job = { ...rest, ...given({ url, group, topic, order_key, method, spread }), ...(callbacks && { callbacks }), ...(headers.trim() ? { headers: headersOf(headers) } : {}) };
  const members = Object.entries(job).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  if (body) members.push(isJSON(body) ? `"body":${body}` : `"body_text":${JSON.stringify(body)}`);
  return `${JSON.stringify({ ...timesOf(draft), job: 0 }).slice(0, -2)}{${members.join(',')}}}`;
}

/** The request that set a schedule, as fields. */
function typed(name: string, request: string): Registered {
  const stored = JSON.parse(request) as Record<string, unknown> & { job: Record<string, unknown>; dst?: Record<string, string>; misfire?: Record<string, unknown>; except?: Record<string, string[]> };
  const { url, group, topic, order_key, method, spread, headers, body: _, body_text, callbacks, ...rest } = stored.job;
  const text = (value: unknown) => (typeof value === 'string' || typeof value === 'number' ? String(value) : '');
  const same = ['cron', 'every', 'anchor', 'timezone', 'start_at', 'end_at', 'max_occurrences', 'jitter', 'overlap'] as const;
  const draft = {
    ...blank,
    ...Object.fromEntries(same.map((field) => [field, text(stored[field])])),
    name,
    dst_gap: text(stored.dst?.['gap']),
    dst_repeat: text(stored.dst?.['repeat']),
    misfire: text(stored.misfire?.['policy']),
    grace: text(stored.misfire?.['grace']),
    dates: (stored.except?.['dates'] ?? []).join(', '),
    url: text(url),
    group: text(group),
    topic: text(topic),
    order_key: text(order_key),
    method: text(method),
    spread: text(spread),
    headers: headersText(headers as Record<string, string> | undefined),
    body: member(member(request, 'job') ?? '', 'body') ?? text(body_text),
    ...typedCallbacks(callbacks as Callbacks | undefined),
  };
  return { draft, rest, callbacks: callbacks as Callbacks | undefined };
}
