/** The API calls of the pages, with their types. docs/api.md describes the fields. */
import { computed, signal } from '@preact/signals';
import type { components } from '../generated/openapi';
import { address, type Query } from './address';

type Schemas = components['schemas'];
type Named<T> = NonNullable<T>;

export type State = Schemas['State'];
export const states = ['waiting', 'ready', 'running', 'retrying', 'delivered', 'dead', 'cancelled', 'expired'] as const satisfies readonly State[];
export const unfinished: readonly State[] = ['waiting', 'ready', 'running', 'retrying'];

export type DueRange = keyof Schemas['DueIn'];
export const dueRanges = ['0_1min', '1_10min', '10_30min', '30min_1h', '1_6h', '6h_1day', '1_7day', '7_30day', '30day_more'] as const satisfies readonly DueRange[];

export type Attempt = Schemas['Attempt'];

export type CallbackEvent = Schemas['CallbackEvent'];
export const callbackEvents = ['delivered', 'dead', 'expired', 'cancelled', 'attempt_failed'] as const satisfies readonly CallbackEvent[];

export type Callbacks = Named<Schemas['Callbacks']>;

/** A job fires at a count or at its due time, whichever comes first. */
export type Count = Named<Schemas['Job']['count']>;
export const atDeadline = ['fire', 'expire'] as const satisfies readonly Count['at_deadline'][];

/** The priority of a job that sets none. */
export const usualPriority = 5;

export type Job = Schemas['Job'];
/** A job with all that was registered except its body. */
export type JobDetails = Schemas['JobDetails'];
export type JobPage = Schemas['JobPage'];

export type Reason = Schemas['Reason'];
/** A sentence of a reason, for translation. */
export type Sentence = Reason['sentences'][number];
export type Forecast = Schemas['Ladder'];
export type Explanation = Schemas['Explanation'];
export type Plan = Schemas['Plan'];

/** The result of a registration. */
export type RegistrationResult = Schemas['RegistrationResult'];
export type RegisteredJob = Schemas['RegisteredJob'];
/** The jobs that a registration for a group made. */
export type FanOut = Schemas['FanOut'];

export const conflictActions = ['reject', 'ignore', 'replace', 'later', 'sooner'] as const satisfies readonly Schemas['Registration']['on_conflict'][];

/** The sort orders of jobs. */
export const orders = ['due', '-due', '-ended'] as const;

export type DeadPage = Schemas['DeadPage'];
export type DeadGroup = DeadPage['data'][number];

/** Since when something is paused, and why. */
export type Pause = Named<Schemas['Pause']>;

export type Topic = Schemas['Topic'];
export type TopicPage = Schemas['TopicList'];
export type TopicCounts = TopicPage['data'][number];
export type TopicLimits = Schemas['TopicLimits'];
export type TopicSettings = Schemas['TopicSettings'];
/** What a dead letter does to the other jobs of its order key. */
export const onDead = ['continue', 'stop'] as const satisfies readonly TopicSettings['on_dead'][];

/** Settings as typed. Empty fields are left out; the API rejects wrong ones. */
export type TopicDraft = Record<string, unknown>;

/** The secret is present only in the answer to the request that set it. */
export type Signing = Schemas['SigningSecrets'] & { secret?: string };

export type AlertMetric = Schemas['AlertMetric'];
export const alertMetrics = ['failures', 'dead_letters', 'backlog', 'oldest_due', 'open_circuits', 'silent_nodes', 'server_trouble', 'inbox_trouble'] as const satisfies readonly AlertMetric[];
export type AlertRule = Schemas['AlertRule'];
export const alertFormats = ['json', 'slack', 'teams'] as const satisfies readonly Schemas['AlertFormat'][];
export type Alert = Schemas['Alert'];
export type AlertPage = Schemas['AlertPage'];

export type Inbox = Schemas['Inbox'];
export type InboxRow = Schemas['InboxRow'];

export type Overview = Schemas['Overview'];
export type Activity = Schemas['Activity'];
export const windows = ['1h', '24h'] as const satisfies readonly Activity['window'][];
export type Node = Schemas['Node'];

export type EndpointState = Schemas['EndpointState'];
export const endpointStates = ['closed', 'open', 'half_open'] as const satisfies readonly EndpointState[];
export type Endpoint = Schemas['Endpoint'];
export type EndpointPage = Schemas['EndpointPage'];

export interface TestDraft {
  url: string;
  topic?: string;
  body?: unknown;
  body_text?: string;
}

export type TestResult = Schemas['TestResult'];

/** The requested ladder. A wrong number is sent as typed, and the API rejects it. */
export interface Retry {
  steps?: string[];
  limit?: number | string;
}

export const methods = ['POST', 'PUT', 'PATCH'] as const satisfies readonly Schemas['Method'][];

/** A registration as typed: a wrong number is sent as it is. */
export type Registration = Omit<Schemas['Registration'], 'retry' | 'priority' | 'callbacks' | 'count' | 'on_conflict' | 'method'> & {
  retry?: Retry;
  priority?: number | string;
  callbacks?: Record<string, unknown>;
  count?: { target?: number | string; at_deadline?: string };
  on_conflict?: string;
  method?: string;
};

/** A job's registration, as the API's text: parsing would change JSON bodies. */
export interface Stored {
  text: string;
  headers?: Record<string, string>;
  content_type?: string;
  body_text?: string;
  body_base64?: string;
}

export type BulkAction = Schemas['Action'];
export const bulkActions = ['replay', 'run', 'reschedule', 'cancel', 'discard'] as const satisfies readonly BulkAction[];

/** The filter of the search box or of an operation. */
export interface BulkFilter extends Partial<Omit<Schemas['AppliedFilter'], 'state' | 'priority'>> {
  state?: string[];
  priority?: number | string;
}

export interface BulkDraft {
  action: BulkAction;
  filter: BulkFilter;
  all: boolean;
  rate?: number | string;
  delay?: string;
}

export type DryRun = Schemas['DryRun'];
export type Operation = Schemas['Operation'];
type OperationPage = Schemas['OperationPage'];

export type Schedule = Schemas['Schedule'];
export type ListedSchedule = Schemas['SchedulePage']['data'][number];
export type SchedulePage = Schemas['SchedulePage'];
export type ScheduleState = Schedule['state'];
export const scheduleStates = ['active', 'paused', 'completed'] as const satisfies readonly ScheduleState[];
export const outcomes = ['fired', 'missed', 'skipped', 'failed', 'manual'] as const satisfies readonly (keyof Schedule['counters'])[];
type DST = Named<Schedule['dst']>;
export const gapRules = ['shift', 'skip'] as const satisfies readonly DST['gap'][];
export const repeatRules = ['first', 'last', 'both'] as const satisfies readonly DST['repeat'][];
export const misfirePolicies = ['fire_once', 'skip', 'fire_all'] as const satisfies readonly Schedule['misfire']['policy'][];
export const overlapPolicies = ['allow', 'skip'] as const satisfies readonly Schedule['overlap'][];

export type Occurrence = Schemas['Occurrence'];
/** A job of a schedule that has ended. The job itself may be gone. */
export type Run = Schemas['Run'];
/** The result of a preview. */
export type Timetable = Schemas['Timetable'];
/** Dates that schedules except by its name. */

/** Receivers that get a job each. */
export type Group = Schemas['Group'];
export type Member = Group['members'][number];
export type GroupPage = Schemas['GroupPage'];

type Caller = Schemas['Caller'];
export const keyScopes = ['read', 'write', 'admin', 'consume'] as const satisfies readonly Caller['scope'][];
export type ApiKey = Schemas['Key'];

export interface KeyDraft {
  name?: string;
  scope?: string;
  topics?: string[];
  rate?: string;
  expires_at?: string;
}

type Problem = Pick<Schemas['Problem'], 'title' | 'status' | 'detail' | 'errors'> & { code: string };

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

/** Whether the server is `duehook dev`, whose answers say so: others have no such calls. */
export const isDev = signal(false);

/** The server's turnable clock; undefined if it has none. */
export const devClock = signal<DevClock | undefined>(undefined);

/** The server's time in ms. A frozen clock shows its last reading. */
export function serverNow(local = Date.now()): number {
  const clock = devClock.value;
  return clock?.frozen ? Date.parse(clock.now) : local + clockAhead.value;
}

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

async function request(method: string, url: string, body?: unknown, abort?: AbortSignal, conditions: Record<string, string> = {}): Promise<Response> {
  const headers = { ...conditions };
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
  isDev.value ||= answer.headers.has('Duehook-Dev');
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

/** Replaces this version, or creates what has no version yet and never replaces. */
async function put<T>(url: string, draft: unknown, version?: string): Promise<T> {
  try {
    return (await (await request('PUT', url, draft, undefined, version === undefined ? { 'If-None-Match': '*' } : { 'If-Match': version })).json()) as T;
  } catch (error) {
    if (version !== undefined || !(error instanceof ApiError) || error.problem.code !== 'version_changed') throw error;
    throw new ApiError({ ...error.problem, code: 'name_taken' });
  }
}

export interface JobName {
  topic: string;
  id: string;
}

const job = (a: JobName, ...rest: string[]): string => address(['v1', 'jobs', a.topic, a.id, ...rest]);

const schedule = (name: string, ...rest: string[]): string => address(['v1', 'schedules', name, ...rest]);

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
  register: (draft: Registration) => json<RegisteredJob | FanOut>('POST', '/v1/jobs', draft),
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
  alerts: (query: Query, abort: AbortSignal) => json<AlertPage>('GET', address(['v1', 'alerts'], query), undefined, abort),
  rules: (query: Query, abort: AbortSignal) => json<Schemas['AlertRulePage']>('GET', address(['v1', 'alerts', 'rules'], query), undefined, abort),
  ruleToEdit: (name: string, abort: AbortSignal) => versioned<AlertRule>(address(['v1', 'alerts', 'rules', name]), abort),
  putRule: (name: string, draft: Record<string, unknown>, version?: string) =>
    put<AlertRule>(address(['v1', 'alerts', 'rules', name]), draft, version),
  deleteRule: (name: string) => json<unknown>('DELETE', address(['v1', 'alerts', 'rules', name])),
  inboxes: (query: Query, abort: AbortSignal) => json<Schemas['InboxPage']>('GET', address(['v1', 'inboxes'], query), undefined, abort),
  inboxRows: (name: string, query: Query, abort: AbortSignal) =>
    json<Schemas['InboxRowPage']>('GET', address(['v1', 'inboxes', name, 'rows'], query), undefined, abort),
  retryRows: (name: string, rows: Schemas['InboxRowSelection']) => json<unknown>('POST', address(['v1', 'inboxes', name, 'retry']), rows),
  dropRows: (name: string, rows: Schemas['InboxRowSelection']) => json<unknown>('POST', address(['v1', 'inboxes', name, 'drop']), rows),
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
  resumeSchedule: (name: string) => json<Schedule>('POST', schedule(name, 'resume')),
  runSchedule: (name: string) => json<RegisteredJob | FanOut>('POST', schedule(name, 'run')),
  groups: (query: Query, abort: AbortSignal) => json<GroupPage>('GET', address(['v1', 'groups'], query), undefined, abort),
  group: (name: string, abort: AbortSignal) => json<Group>('GET', address(['v1', 'groups', name]), undefined, abort),
  members: (group: string, query: Query, abort: AbortSignal) =>
    json<Schemas['MemberPage']>('GET', address(['v1', 'groups', group, 'members'], query), undefined, abort),
  putGroup: (name: string, draft: Pick<Group, 'members'>, version?: string) => put<Group>(address(['v1', 'groups', name]), draft, version),
  deleteGroup: (name: string) => json<unknown>('DELETE', address(['v1', 'groups', name])),
  dead: (query: Query, abort: AbortSignal) =>
    json<DeadPage>('GET', address(['v1', 'dead'], query), undefined, abort),
  dryRun: (draft: BulkDraft, abort: AbortSignal) => json<DryRun>('POST', '/v1/operations?dry_run=true', draft, abort),
  operate: (draft: BulkDraft) => json<Operation>('POST', '/v1/operations', draft),
  operations: (query: Query, abort: AbortSignal) => json<OperationPage>('GET', address(['v1', 'operations'], [...query, ['limit', '50']]), undefined, abort),
  stop: (id: string) => json<Operation>('POST', address(['v1', 'operations', id, 'stop'])),
  resume: (id: string) => json<Operation>('POST', address(['v1', 'operations', id, 'resume'])),
  events: async (abort: AbortSignal) => (await request('GET', '/v1/events', undefined, abort)).body,
  keys: (query: Query, abort: AbortSignal) => json<Schemas['KeyPage']>('GET', address(['v1', 'keys'], query), undefined, abort),
  createKey: (draft: KeyDraft) => json<{ token: string }>('POST', '/v1/keys', draft),
  revokeKey: (id: string) => json<unknown>('DELETE', address(['v1', 'keys', id])),
  whoAmI: () => json<Caller>('GET', '/v1/whoami'),
  activity: (of: Query, abort: AbortSignal) => json<Activity>('GET', address(['v1', 'activity'], of), undefined, abort),
  nodes: async (abort: AbortSignal) => (await json<Schemas['NodePage']>('GET', '/v1/nodes?limit=1000', undefined, abort)).data,
  overview: (abort: AbortSignal) => json<Overview>('GET', '/v1/overview', undefined, abort),
  endpoints: (query: Query, abort: AbortSignal) =>
    json<EndpointPage>('GET', address(['v1', 'endpoints'], query), undefined, abort),
  tryEndpoint: (endpoint: string) => json<Endpoint>('POST', '/v1/endpoints/try', { endpoint }),
  sendTest: (draft: TestDraft) => json<TestResult>('POST', '/v1/endpoints/test', draft),
};
