/** The API calls of the pages, with their types. docs/api.md describes the fields. */
import { computed, signal } from '@preact/signals';
import { address, type Query } from './address';

export const states = ['waiting', 'ready', 'running', 'retrying', 'delivered', 'dead', 'cancelled', 'expired'] as const;
export type State = (typeof states)[number];
export const unfinished: readonly State[] = ['waiting', 'ready', 'running', 'retrying'];

export const dueRanges = ['0_1min', '1_10min', '10_30min', '30min_1h', '1_6h', '6h_1day', '1_7day', '7_30day', '30day_more'] as const;
export type DueRange = (typeof dueRanges)[number];

export interface Attempt {
  number: number;
  started_at: string;
  duration_ms: number;
  dns_ms: number | null;
  connect_ms: number | null;
  tls_ms: number | null;
  first_byte_ms: number | null;
  connection_reused: boolean;
  /** Absent if the attempt connected once. */
  connect_retries?: number;
  status: number | null;
  error: string | null;
  response_body: string | null;
  next_at: string | null;
  reason: string | null;
  response_headers: Record<string, string>;
}

export const callbackEvents = ['delivered', 'dead', 'expired', 'cancelled', 'attempt_failed'] as const;
/** The events of callbacks, with that of a group, which no form has. */
export const reportedEvents = [...callbackEvents, 'all_ended'] as const;
export type CallbackEvent = (typeof reportedEvents)[number];

export type Callbacks = Partial<Record<CallbackEvent, { url: string; method?: string; headers?: Record<string, string> } | null>> & {
  retry?: { steps?: string[] | null; limit?: number | null } | null;
  include_request?: boolean | null;
};

export const atDeadline = ['fire', 'expire'] as const;

/** A job fires at a count or at its due time, whichever comes first. */
export interface Count {
  count: number;
  target: number;
  at_deadline: (typeof atDeadline)[number];
  fired: boolean;
}

/** The priority of a job that sets none. */
export const usualPriority = 5;

export interface Job {
  uid: string;
  topic: string;
  id: string;
  biz_key: string | null;
  /** Absent without one. */
  order_key?: string;
  labels: Record<string, string>;
  /** Null for a job that consumers fetch; so is the method. */
  url: string | null;
  method: string | null;
  state: State;
  priority: number;
  due_at: string;
  /** Absent without one. */
  spread?: string;
  created_at: string;
  next_at: string | null;
  attempts: number;
  max_attempts: number;
  last_attempt: Attempt | null;
  ended_at: string | null;
  reason: string | null;
  version: number;
  /** Absent unless the job fires at a count. */
  count?: Count;
  /** The delivered rounds before, if the receiver arms the job again; else absent. */
  rounds?: number;
  /** The schedule that made the job. */
  schedule: string | null;
  occurrence: { time: string; kind: string } | null;
  /** The last callbacks made, oldest first. Absent without any. */
  callback_jobs?: { event: CallbackEvent; id: string }[];
  /** What a callback reports. */
  callback_of?: { event: CallbackEvent; id: string };
  /** The group whose member the job is for, and the id of its fan-out. */
  group?: string;
  group_id?: string;
}

/** A job with all that was registered except its body. */
export interface JobDetails extends Job {
  retry: { steps?: string[]; limit?: number } | null;
  timeout: string | null;
  ttl: string | null;
  expect: { body: string } | null;
  callbacks: Callbacks | null;
}

/** A sentence of a reason, for translation. */
export interface Sentence {
  code: string;
  params: Record<string, string | number>;
}

export interface Reason {
  code: string;
  /** All of the sentences, in English. */
  detail: string;
  sentences: Sentence[];
  until: string | null;
  node: string | null;
}

/** A sentence about where a job comes from, or what it makes. */
export interface Note extends Sentence {
  detail: string;
}

/** A time span, because of jitter. */
export interface Span {
  earliest_at: string;
  latest_at: string;
}

export interface Forecast {
  attempts: (Span & { number: number })[];
  dead_at: Span | null;
  expires_at: string | null;
}

export interface Explanation {
  job: JobDetails;
  reasons: Reason[];
  notes: Note[];
  expected_at: string | null;
  ladder: Forecast;
}

export interface Plan {
  due_at: string;
  ladder: Forecast;
  /** The other jobs for the endpoint that are due in the same second and minute. */
  others_due: { same_second: number; same_minute: number };
}

/** The result of a registration. */
export type RegistrationResult = 'created' | 'same' | 'kept' | 'moved';

export const conflictActions = ['reject', 'ignore', 'replace', 'later', 'sooner'] as const;

/** The sort orders for jobs of one topic and state. */
export const orders = ['due', '-due', 'created', '-created'] as const;

export interface JobPage {
  data: Job[];
  next_cursor: string | null;
}

export interface DeadGroup {
  topic: string;
  endpoint: string;
  reason: string;
  count: number;
  oldest_at: string;
  newest_at: string;
}

/** Since when something is paused, and why. */
export interface Pause {
  since: string;
  until: string | null;
  by: string | null;
  note: string | null;
}

export interface TopicCounts {
  name: string;
  state: 'active' | 'paused' | 'draining';
  paused: Pause | null;
  draining: Pause | null;
  settings: TopicSettings | null;
  states: Record<State, number>;
}

export interface TopicPage {
  data: TopicCounts[];
  next_cursor: string | null;
}

export const thresholds = ['failures', 'failure_rate', 'dead_letters', 'backlog', 'oldest_due'] as const;

/** The alert thresholds of a topic and their recipient. */
export interface TopicAlerts extends Record<Exclude<(typeof thresholds)[number], 'oldest_due'>, number | null> {
  oldest_due: string | null;
  window: string | null;
  min_attempts: number | null;
  for: string | null;
  keep_firing_for: string | null;
  repeat: string | null;
  url: string | null;
}

/** What a dead letter does to the other jobs of its order key. */
export const onDead = ['continue', 'stop'] as const;

export interface TopicSettings {
  capacity: number | null;
  rate: number | null;
  concurrency: number | null;
  weight: number | null;
  on_dead: (typeof onDead)[number] | null;
  retry: { steps: string[] | null; limit: number | null } | null;
  timeout: string | null;
  ttl: string | null;
  headers: Record<string, string>;
  priority: number | null;
  spread: string | null;
  callbacks: Callbacks | null;
  alerts: TopicAlerts | null;
}

/** Settings as typed. Empty fields are left out; the API rejects wrong ones. */
export type TopicDraft = Record<string, unknown>;

export interface Signing {
  /** Present only in the answer to the request that set it. */
  secret?: string;
  source: 'topic' | 'default' | 'settings';
  secrets: { id: string; created_at: string; ends_at: string | null }[];
}

export const alertMetrics = ['failures', 'failure_rate', 'dead_letters', 'oldest_due', 'backlog', 'open_circuits', 'herd'] as const;
export type AlertMetric = (typeof alertMetrics)[number];
export type AlertBy = 'total' | 'topic' | 'endpoint';

export interface AlertRule {
  name: string;
  metric: AlertMetric;
  by: AlertBy;
  topic: string | null;
  endpoint: string | null;
  above: number;
  window: string | null;
  min_attempts: number | null;
  for: string;
  keep_firing_for: string;
  repeat: string;
  url: string | null;
  /** The topic that the rule belongs to, if the rule cannot be changed by itself. */
  set_in: string | null;
}

export interface Alert {
  id: string | null;
  rule: string;
  set_in: string | null;
  metric: AlertMetric;
  subject: { topic: string | null; endpoint: string | null };
  state: 'pending' | 'firing';
  value: number;
  threshold: number;
  since: string;
  told_at: string | null;
}

export interface Topic extends TopicCounts {
  due_in: Record<DueRange, number>;
  /** Whether some jobs are not counted. */
  due_in_partial: boolean;
}

export interface Overview {
  as_of: string;
  age_ms: number;
  states: Record<State, number>;
  due_now: number;
  due_within_1h: number;
  in_flight: number;
  dead: number;
  open_circuits: number;
  success_rate: number | null;
  lateness_p99_ms: number | null;
  due: { from: string; step_ms: number; counts: number[]; later: number; partial_from: string | null };
  recent: {
    from: string;
    step_ms: number;
    delivered: number[];
    failed: number[];
    lateness: { bounds_ms: number[]; counts: number[][] };
  };
  topics: { topic: string; unfinished: number }[];
  /** The minutes of the next hour with unusually many jobs: above a topic's rate, or of all topics. */
  herds: { at: string; topic: string | null; jobs: number; limit: number }[];
}

/** The last complete pass that compared the ledger with the store. */
interface RestoreStatus {
  last_reconcile: { no_room: number };
}

export const endpointStates = ['closed', 'open', 'half_open'] as const;
export type EndpointState = (typeof endpointStates)[number];

export interface Endpoint {
  endpoint: string;
  state: EndpointState;
  reopens_at: string | null;
  waiting: number;
  ready: number;
  in_flight: number;
  failures: number | null;
  last_error: string | null;
  last_failure_at: string | null;
  last_success_at: string | null;
}

export interface TestDraft {
  url: string;
  topic?: string;
  body?: unknown;
  body_text?: string;
}

export interface TestResult {
  delivered: boolean;
  attempt: Attempt;
}

/** The requested ladder. A wrong number is sent as typed, and the API rejects it. */
export interface Retry {
  steps?: string[];
  limit?: number | string;
}

export const methods = ['POST', 'PUT', 'PATCH'] as const;

export interface Registration {
  topic?: string;
  id?: string;
  biz_key?: string;
  order_key?: string;
  labels?: Record<string, string>;
  url?: string;
  pull?: true;
  group?: string;
  filter_label?: string;
  method?: string;
  delay?: string;
  at?: string;
  spread?: string;
  body?: unknown;
  body_text?: string;
  content_type?: string;
  headers?: Record<string, string>;
  retry?: Retry;
  timeout?: string;
  ttl?: string;
  expect?: { body: string };
  priority?: number | string;
  on_conflict?: string;
  callbacks?: Record<string, unknown>;
  count?: { target?: number | string; at_deadline?: string };
}

/** A job's registration, as the API's text: parsing would change JSON bodies. */
export interface Stored {
  text: string;
  headers?: Record<string, string>;
  content_type?: string;
  body_text?: string;
  body_base64?: string;
}

export const bulkActions = ['replay', 'run', 'reschedule', 'cancel', 'discard'] as const;
export type BulkAction = (typeof bulkActions)[number];

export interface BulkFilter {
  topic?: string;
  state?: string[];
  biz_key?: string;
  order_key?: string;
  endpoint?: string;
  schedule?: string;
  group_id?: string;
  labels?: Record<string, string>;
  priority?: number | string;
  reason?: string;
  due_from?: string;
  due_to?: string;
}

export interface BulkDraft {
  action: BulkAction;
  filter: BulkFilter;
  all: boolean;
  rate?: number;
  delay?: string;
}

/** Occurrences with from ≤ T < to. */
export interface BackfillDraft {
  from: string;
  to: string;
  rate?: number;
}

export interface DryRun {
  matched: number;
  complete: boolean;
}

export interface Operation {
  id: string;
  action: BulkAction | 'backfill';
  filter: BulkFilter;
  /** The names of the fields that a replay changes in each job. */
  set: string[] | null;
  /** The times whose occurrences a backfill registers. */
  span: { from: string; to: string } | null;
  /** The due time that a reschedule sets. */
  reschedule_to: string | null;
  rate: number;
  /** The name of the key that began it. */
  by: string | null;
  state: 'running' | 'stopped' | 'done' | 'failed';
  reason: string | null;
  estimate: number | null;
  matched: number;
  changed: number;
  skipped: number;
  failed: number;
  errors: { topic: string; id: string; message: string }[];
  created_at: string;
  ended_at: string | null;
}

export const scheduleStates = ['active', 'paused', 'completed'] as const;
export type ScheduleState = (typeof scheduleStates)[number];
export const outcomes = ['fired', 'missed', 'skipped', 'failed', 'manual', 'backfilled'] as const;
export const gapRules = ['shift', 'skip'] as const;
export const repeatRules = ['first', 'last', 'both'] as const;
export const misfirePolicies = ['fire_once', 'skip', 'fire_all'] as const;
export const overlapPolicies = ['allow', 'skip', 'queue_one', 'replace'] as const;

/** The rules for local times that do not exist or come twice; null for an interval. */
type DST = { gap: (typeof gapRules)[number]; repeat: (typeof repeatRules)[number] } | null;

export interface Occurrence {
  time: string;
  /** The time in the schedule's zone, with a numeric offset. */
  local: string;
  due_at: string;
  effect: 'shifted' | 'first_of_two' | 'second_of_two' | null;
  /** The local time that does not exist. */
  wanted: string | null;
  /** A call skipped it. */
  skipped?: true;
}

/** A schedule as in a list. */
export interface Schedule {
  name: string;
  state: ScheduleState;
  version: number;
  created_at: string;
  updated_at: string;
  cron: string | null;
  every: string | null;
  anchor: string | null;
  timezone: string;
  dst: DST;
  start_at: string | null;
  end_at: string | null;
  max_occurrences: number | null;
  remaining: number | null;
  jitter: string;
  misfire: { policy: (typeof misfirePolicies)[number]; grace: string; window: string; limit: number };
  overlap: (typeof overlapPolicies)[number];
  except: { dates?: string[]; calendars?: string[] } | null;
  paused: Pause | null;
  tzdata: string;
  job: { topic: string; url: string | null; method: string | null };
  last: { time: string; local: string; outcome: string; reason: string | null; topic: string | null; id: string | null } | null;
  counters: Record<(typeof outcomes)[number], number>;
  last_error: { at: string; reason: string; message: string } | null;
}

export interface ListedSchedule extends Schedule {
  next_at: string | null;
}

/** A job of a schedule that has ended. The job itself may be gone. */
export interface Run {
  time: string;
  kind: 'timetable' | 'misfire' | 'backfill' | 'manual';
  topic: string;
  id: string;
  uid: string;
  outcome: State;
  reason: string | null;
  attempts: number;
  status: number | null;
  error: string | null;
  started_at: string | null;
  duration_ms: number | null;
  ended_at: string;
}

export interface SchedulePage {
  data: ListedSchedule[];
  next_cursor: string | null;
}

/** The result of a preview. */
export interface Timetable {
  timezone: string;
  dst: DST;
  tzdata: string;
  data: Occurrence[];
  next_cursor: string | null;
  omitted: { local: string; reason: 'gap' | 'repeat' | 'merged' | 'excepted'; calendar?: string }[];
}

/** Dates that schedules except by its name. */
export interface Calendar {
  name: string;
  version: number;
  dates: string[];
}

export interface Member {
  name: string;
  url: string;
  /** Null if the key may not read them. */
  headers: Record<string, string> | null;
  filter_label: string | null;
}

/** Receivers that get a job each. */
export interface Group {
  name: string;
  version: number;
  members: Member[];
}

export interface GroupPage {
  data: Group[];
  next_cursor: string | null;
}

/** The jobs that a registration for a group made. */
export interface FanOut {
  group: string;
  group_id: string;
  jobs: (Job & { result: RegistrationResult })[];
}

export const keyScopes = ['read', 'write', 'admin', 'consume'] as const;

interface Caller {
  key: string | null;
  key_name: string | null;
  scope: (typeof keyScopes)[number];
  /** The topics to which the key is restricted; null: all. */
  topics: string[] | null;
}

export interface ApiKey {
  id: string;
  name: string | null;
  /** null, as most others, for a key that the server cannot read. */
  scope: (typeof keyScopes)[number] | null;
  state: 'active' | 'expired' | 'unreadable';
  expires_at: string | null;
  rate: string | null;
  /** The topics to which the key is restricted; null: all. */
  topics: string[] | null;
  source: 'settings' | 'store';
}

export interface KeyDraft {
  name?: string;
  scope?: string;
  topics?: string[];
  rate?: string;
  expires_at?: string;
}

interface Problem {
  title: string;
  status: number;
  detail: string;
  code: string;
  errors: { pointer: string; message: string }[];
}

/** An error of the API, or a failed connection (code `unreachable`). */
export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

const storedKey = 'duehook.key';

/** The API key, kept while the tab is open; empty if the server needs none. */
export const key = signal(sessionStorage.getItem(storedKey) ?? '');

/** Set when the API asks for a key; its text says why it rejected the current one. */
export const keyWanted = signal<ApiError | undefined>(undefined);

export function setKey(value: string): void {
  if (value) sessionStorage.setItem(storedKey, value);
  else sessionStorage.removeItem(storedKey);
  key.value = value;
  keyWanted.value = undefined;
}

/** The key's name and scope, once known. */
export const caller = signal<Caller | undefined>(undefined);

/** Whether the key has the scope admin. */
export const mayAdmin = computed(() => caller.value?.scope === 'admin');

/** Whether the key allows changes. Pages hide actions that it forbids. */
export const mayChange = computed(() => caller.value?.scope === 'write' || mayAdmin.value);

/** Whether the key is restricted to topics, so that the API refuses what concerns all of them. */
export const restricted = computed(() => Boolean(caller.value?.topics));

/** How far the server's clock is ahead of this machine's, in ms. All times shown are the server's. */
export const clockAhead = signal(0);

/** The clock of `duehook dev`. */
export interface DevClock {
  now: string;
  speed: number;
  frozen: boolean;
  next: string | null;
  attempts?: number;
}

/** The server's turnable clock; undefined if it has none. */
export const devClock = signal<DevClock | undefined>(undefined);

export interface SinkAnswer {
  status: number;
  body: string;
  headers: Record<string, string> | null;
  delay: string;
}

export interface SinkRequest {
  at: string;
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string;
  body_base64?: string;
  signature: 'valid' | 'invalid' | 'none';
}

/** A receiver in the process of `duehook dev`. */
export interface Sink {
  name: string;
  url: string;
  answers: SinkAnswer[];
  total: number;
}

async function request(method: string, url: string, body?: unknown, abort?: AbortSignal, version?: string): Promise<Response> {
  const headers: Record<string, string> = {};
  if (version !== undefined) headers['If-Match'] = version;
  const used = key.value;
  if (used) headers['Authorization'] = `Bearer ${used}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let answer: Response;
  try {
    answer = await fetch(url, { method, headers, body: body === undefined ? null : body instanceof Blob ? body : JSON.stringify(body), signal: abort ?? null });
  } catch (cause) {
    if (abort?.aborted) throw cause;
    throw new ApiError({ title: '', status: 0, detail: String(cause), code: 'unreachable', errors: [] });
  }
  noteClock(answer);
  if (answer.ok) return answer;
  const error = new ApiError(await problemOf(answer, abort));
  // A late 401 for an earlier key says nothing about this one.
  if (answer.status === 401 && used === key.value) keyWanted.value = error;
  throw error;
}

async function problemOf(answer: Response, abort?: AbortSignal): Promise<Problem> {
  try {
    return (await answer.json()) as Problem;
  } catch (cause) {
    if (abort?.aborted) throw cause;
    // A proxy may answer without JSON.
    return { title: answer.statusText, status: answer.status, detail: `HTTP ${answer.status}`, code: 'unreachable', errors: [] };
  }
}

/** The Date header has whole seconds, so ignore small differences. */
function noteClock(answer: Response): void {
  if (devClock.value) return; // its own clock is not that of the Date header
  const date = Date.parse(answer.headers.get('Date') ?? '');
  if (Number.isNaN(date)) return;
  const ahead = date + 500 - Date.now();
  clockAhead.value = Math.abs(ahead) < 2000 ? 0 : ahead;
}

async function json<T>(method: string, url: string, body?: unknown, abort?: AbortSignal): Promise<T> {
  return (await (await request(method, url, body, abort)).json()) as T;
}

/** A value with the version that If-Match guards. */
export interface Versioned<T> {
  content: T;
  version: string | undefined;
}

async function versioned<T>(url: string, abort: AbortSignal): Promise<Versioned<T>> {
  const answer = await request('GET', url, undefined, abort);
  return { content: (await answer.json()) as T, version: answer.headers.get('ETag') ?? undefined };
}

/** Replaces this version, or any version if undefined. */
async function put<T>(url: string, draft: unknown, version?: string): Promise<T> {
  return (await (await request('PUT', url, draft, undefined, version)).json()) as T;
}

export interface JobName {
  topic: string;
  id: string;
}

const job = (a: JobName, ...rest: string[]): string => address(['v1', 'jobs', a.topic, a.id, ...rest]);

const schedule = (name: string, ...rest: string[]): string => address(['v1', 'schedules', name, ...rest]);

/** Set once the server has answered that it has no ledger, which only a restart changes. */
let withoutLedger = false;

const sink = (name: string): string => address(['v1', 'dev', 'sinks', name]);

export const api = {
  devClock: () => json<DevClock>('GET', '/v1/dev/clock'),
  turnClock: (change: Record<string, unknown>) => json<DevClock>('POST', '/v1/dev/clock', change),
  sinks: async (abort: AbortSignal) => (await json<{ data: Sink[] }>('GET', '/v1/dev/sinks', undefined, abort)).data,
  sink: (name: string, abort: AbortSignal) => json<Sink & { requests: SinkRequest[] }>('GET', sink(name), undefined, abort),
  putSink: (name: string, answers: unknown[]) => json<Sink>('PUT', sink(name), { answers }),
  deleteSink: (name: string) => request('DELETE', sink(name)),
  jobs: (query: Query, abort: AbortSignal) => json<JobPage>('GET', address(['v1', 'jobs'], query), undefined, abort),
  explain: (a: JobName, abort: AbortSignal) => json<Explanation>('GET', job(a, 'explain'), undefined, abort),
  attempts: async (a: JobName, abort: AbortSignal) =>
    (await json<{ data: Attempt[] }>('GET', address(['v1', 'jobs', a.topic, a.id, 'attempts'], [['limit', '1000']]), undefined, abort)).data,
  stored: async (a: JobName, abort: AbortSignal): Promise<Stored> => {
    const text = await (await request('GET', job(a, 'registration'), undefined, abort)).text();
    return { ...(JSON.parse(text) as Omit<Stored, 'text'>), text: text.trim() };
  },
  plan: (draft: Registration) => json<Plan>('POST', '/v1/jobs/plan', draft),
  register: (draft: Registration) => json<(Job & { result: RegistrationResult }) | FanOut>('POST', '/v1/jobs', draft),
  reschedule: (a: JobName, when: { delay: string } | { at: string }) => json<Job>('PATCH', job(a), when),
  cancel: (a: JobName) => json<{ result: 'cancelled' | 'in_flight' | 'discarded' }>('DELETE', job(a)),
  addCount: (a: JobName) => json<{ count: number; target: number; fired: boolean }>('POST', job(a, 'count')),
  run: (a: JobName) => json<Job>('POST', job(a, 'run')),
  /** `changes` is JSON text, because a body may have numbers that JavaScript cannot represent. */
  replay: (a: JobName, changes?: string) => json<Job>('POST', job(a, 'replay'), changes && new Blob([changes])),
  topics: (query: Query, abort: AbortSignal) => json<TopicPage>('GET', address(['v1', 'topics'], query), undefined, abort),
  topic: (name: string, abort: AbortSignal) => json<Topic>('GET', address(['v1', 'topics', name]), undefined, abort),
  pauseTopic: (name: string) => json<Topic>('POST', address(['v1', 'topics', name, 'pause'])),
  drainTopic: (name: string) => json<Topic>('POST', address(['v1', 'topics', name, 'drain'])),
  resumeTopic: (name: string) => json<Topic>('POST', address(['v1', 'topics', name, 'resume'])),
  topicToEdit: (name: string, abort: AbortSignal) => versioned<Topic>(address(['v1', 'topics', name]), abort),
  putTopic: (name: string, draft: TopicDraft, version?: string) => put<Topic>(address(['v1', 'topics', name]), draft, version),
  deleteTopic: (name: string) => json<unknown>('DELETE', address(['v1', 'topics', name])),
  signing: (name: string, abort: AbortSignal) => json<Signing>('GET', address(['v1', 'topics', name, 'signing']), undefined, abort),
  rotateSecret: (name: string, draft: { secret?: string; overlap: string }) =>
    json<Signing>('POST', address(['v1', 'topics', name, 'signing', 'rotate']), draft),
  deleteSecret: (name: string) => json<unknown>('DELETE', address(['v1', 'topics', name, 'signing'])),
  alerts: async (abort: AbortSignal) => (await json<{ data: Alert[] }>('GET', '/v1/alerts?limit=1000', undefined, abort)).data,
  rules: async (abort: AbortSignal) => (await json<{ data: AlertRule[] }>('GET', '/v1/alerts/rules?limit=1000', undefined, abort)).data,
  ruleToEdit: (name: string, abort: AbortSignal) => versioned<AlertRule>(address(['v1', 'alerts', 'rules', name]), abort),
  putRule: (name: string, draft: Record<string, unknown>, version?: string) =>
    put<AlertRule>(address(['v1', 'alerts', 'rules', name]), draft, version),
  deleteRule: (name: string) => json<unknown>('DELETE', address(['v1', 'alerts', 'rules', name])),
  schedules: (query: Query, abort: AbortSignal) => json<SchedulePage>('GET', address(['v1', 'schedules'], query), undefined, abort),
  schedule: (name: string, abort: AbortSignal) => json<Schedule & { next: Occurrence[] }>('GET', schedule(name), undefined, abort),
  runs: async (name: string, abort: AbortSignal) =>
    (await json<{ data: Run[] }>('GET', schedule(name, 'runs'), undefined, abort)).data,
  timetable: (name: string, abort: AbortSignal) =>
    json<Timetable>('GET', address(['v1', 'schedules', name, 'occurrences'], [['limit', '10']]), undefined, abort),
  occurrences: async (name: string, abort: AbortSignal) =>
    (await json<Timetable>('GET', address(['v1', 'schedules', name, 'occurrences'], [['limit', '10']]), undefined, abort)).data,
  /** The request that set the schedule, as text. The version is read first, so it is never newer than the text. */
  scheduleToEdit: async (name: string, abort: AbortSignal): Promise<Versioned<string>> => {
    const { version } = await versioned<Schedule>(schedule(name), abort);
    return { content: await (await request('GET', schedule(name, 'registration'), undefined, abort)).text(), version };
  },
  /** `draft` is JSON text, because a body may have numbers that JavaScript cannot represent. */
  putSchedule: (name: string, draft: string, version?: string) => put<Schedule>(schedule(name), new Blob([draft]), version),
  previewSchedule: (draft: Record<string, unknown>, abort: AbortSignal) => json<Timetable>('POST', '/v1/schedules/preview', draft, abort),
  deleteSchedule: (name: string) => json<unknown>('DELETE', schedule(name)),
  pauseSchedule: (name: string, pause: { until?: string; note?: string }) => json<Schedule>('POST', schedule(name, 'pause'), pause),
  skipOccurrence: (name: string, time: string) => json<Schedule>('POST', schedule(name, 'skip'), { time }),
  unskipOccurrence: (name: string, time: string) => json<Schedule>('POST', schedule(name, 'unskip'), { time }),
  calendars: (abort: AbortSignal) => json<{ data: Calendar[] }>('GET', address(['v1', 'calendars'], [['limit', '1000']]), undefined, abort),
  putCalendar: (name: string, dates: string[], version?: string) => put<Calendar>(address(['v1', 'calendars', name]), { dates }, version),
  deleteCalendar: (name: string) => json<unknown>('DELETE', address(['v1', 'calendars', name])),
  resumeSchedule: (name: string) => json<Schedule>('POST', schedule(name, 'resume')),
  runSchedule: (name: string) => json<Job>('POST', schedule(name, 'run')),
  countBackfill: (name: string, draft: BackfillDraft, abort: AbortSignal) =>
    json<{ matched: number }>('POST', `${schedule(name, 'backfill')}?dry_run=true`, draft, abort),
  backfill: (name: string, draft: BackfillDraft) => json<Operation>('POST', schedule(name, 'backfill'), draft),
  groups: (query: Query, abort: AbortSignal) => json<GroupPage>('GET', address(['v1', 'groups'], query), undefined, abort),
  group: (name: string, abort: AbortSignal) => json<Group>('GET', address(['v1', 'groups', name]), undefined, abort),
  groupToEdit: (name: string, abort: AbortSignal) => versioned<Group>(address(['v1', 'groups', name]), abort),
  putGroup: (name: string, draft: { members: Record<string, unknown>[] }, version?: string) =>
    put<Group>(address(['v1', 'groups', name]), draft, version),
  deleteGroup: (name: string) => json<unknown>('DELETE', address(['v1', 'groups', name])),
  dead: (query: Query, abort: AbortSignal) =>
    json<{ data: DeadGroup[]; next_cursor: string | null }>('GET', address(['v1', 'dead'], query), undefined, abort),
  dryRun: (draft: BulkDraft, abort: AbortSignal) => json<DryRun>('POST', '/v1/operations?dry_run=true', draft, abort),
  operate: (draft: BulkDraft) => json<Operation>('POST', '/v1/operations', draft),
  operations: async (abort: AbortSignal) =>
    (await json<{ data: Operation[] }>('GET', '/v1/operations?limit=50', undefined, abort)).data,
  stop: (id: string) => json<Operation>('POST', address(['v1', 'operations', id, 'stop'])),
  resume: (id: string) => json<Operation>('POST', address(['v1', 'operations', id, 'resume'])),
  events: async (abort: AbortSignal) => (await request('GET', '/v1/events', undefined, abort)).body,
  keys: async (abort: AbortSignal) => (await json<{ data: ApiKey[] }>('GET', '/v1/keys?limit=1000', undefined, abort)).data,
  createKey: (draft: KeyDraft) => json<{ token: string }>('POST', '/v1/keys', draft),
  revokeKey: (id: string) => json<unknown>('DELETE', address(['v1', 'keys', id])),
  whoAmI: () => json<Caller>('GET', '/v1/whoami'),
  overview: (abort: AbortSignal) => json<Overview>('GET', '/v1/overview', undefined, abort),
  /** The number of lost jobs that the store has no room for. */
  noRoom: async (abort: AbortSignal): Promise<number> => {
    if (withoutLedger) return 0;
    try {
      return (await json<RestoreStatus>('GET', '/v1/restore', undefined, abort)).last_reconcile.no_room;
    } catch (error) {
      withoutLedger = error instanceof ApiError && error.problem.code === 'ledger_missing';
      if (withoutLedger) return 0;
      throw error;
    }
  },
  endpoints: (query: Query, abort: AbortSignal) =>
    json<{ data: Endpoint[]; next_cursor: string | null }>('GET', address(['v1', 'endpoints'], query), undefined, abort),
  tryEndpoint: (endpoint: string) => json<Endpoint>('POST', '/v1/endpoints/try', { endpoint }),
  sendTest: (draft: TestDraft) => json<TestResult>('POST', '/v1/endpoints/test', draft),
};
