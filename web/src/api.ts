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
  status: number | null;
  error: string | null;
  response_body: string | null;
  next_at: string | null;
  reason: string | null;
  response_headers: Record<string, string>;
}

/** The priority of a job that sets none. */
export const usualPriority = 5;

export interface Job {
  uid: string;
  topic: string;
  id: string;
  biz_key: string | null;
  labels: Record<string, string>;
  url: string;
  method: string;
  state: State;
  priority: number;
  due_at: string;
  created_at: string;
  next_at: string | null;
  attempts: number;
  max_attempts: number;
  last_attempt: Attempt | null;
  ended_at: string | null;
  reason: string | null;
  version: number;
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
  job: Job;
  reasons: Reason[];
  expected_at: string | null;
  ladder: Forecast;
}

export interface Plan {
  due_at: string;
  ladder: Forecast;
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

export interface TopicCounts {
  topic: string;
  /** `active`, `paused` or `draining`. */
  status: 'active' | 'paused' | 'draining';
  since: string | null;
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

export interface TopicSettings {
  capacity: number | null;
  rate: number | null;
  concurrency: number | null;
  weight: number | null;
  retry: { steps: string[] | null; limit: number | null } | null;
  timeout: string | null;
  ttl: string | null;
  headers: Record<string, string>;
  job_priority: number | null;
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

export const alertMetrics = ['failures', 'failure_rate', 'dead_letters', 'oldest_due', 'backlog', 'open_circuits'] as const;
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
  status: 'pending' | 'firing';
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

export interface Registration {
  topic?: string;
  id?: string;
  biz_key?: string;
  labels?: Record<string, string>;
  url: string;
  method?: string;
  delay?: string;
  at?: string;
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
  endpoint?: string;
  label?: Record<string, string>;
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

export interface DryRun {
  matched: number;
  complete: boolean;
}

export interface Operation {
  id: string;
  action: BulkAction;
  filter: BulkFilter;
  /** The names of the fields that a replay changes in each job. */
  set: string[] | null;
  rate: number;
  state: 'running' | 'stopped' | 'done' | 'failed';
  reason: string | null;
  estimate: number | null;
  matched: number;
  changed: number;
  skipped: number;
  failed: number;
  errors: { job: string; message: string }[];
  started_at: string;
  ended_at: string | null;
}

interface Caller {
  key_id: string | null;
  key_name: string | null;
  scope: 'read' | 'write' | 'admin';
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

/** Whether the key allows changes. Pages hide actions that it forbids. */
export const mayChange = computed(() => caller.value !== undefined && caller.value.scope !== 'read');

/** Whether the key has the scope admin. */
export const mayAdmin = computed(() => caller.value?.scope === 'admin');

/** How far the server's clock is ahead of this machine's, in ms. All times shown are the server's. */
export const clockAhead = signal(0);

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

export const api = {
  jobs: (query: Query, abort: AbortSignal) => json<JobPage>('GET', address(['v1', 'jobs'], query), undefined, abort),
  explain: (a: JobName, abort: AbortSignal) => json<Explanation>('GET', job(a, 'explain'), undefined, abort),
  attempts: async (a: JobName, abort: AbortSignal) =>
    (await json<{ attempts: Attempt[] }>('GET', job(a, 'attempts'), undefined, abort)).attempts,
  stored: async (a: JobName, abort: AbortSignal): Promise<Stored> => {
    const text = await (await request('GET', job(a, 'registration'), undefined, abort)).text();
    return { ...(JSON.parse(text) as Omit<Stored, 'text'>), text: text.trim() };
  },
  plan: (draft: Registration) => json<Plan>('POST', '/v1/jobs/plan', draft),
  register: (draft: Registration) => json<Job & { result: RegistrationResult }>('POST', '/v1/jobs', draft),
  reschedule: (a: JobName, when: { delay: string } | { at: string }) => json<Job>('PATCH', job(a), when),
  cancel: (a: JobName) => json<{ result: 'cancelled' | 'in_flight' | 'discarded' }>('DELETE', job(a)),
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
  alerts: async (abort: AbortSignal) => (await json<{ data: Alert[] }>('GET', '/v1/alerts', undefined, abort)).data,
  rules: async (abort: AbortSignal) => (await json<{ data: AlertRule[] }>('GET', '/v1/alerts/rules', undefined, abort)).data,
  ruleToEdit: (name: string, abort: AbortSignal) => versioned<AlertRule>(address(['v1', 'alerts', 'rules', name]), abort),
  putRule: (name: string, draft: Record<string, unknown>, version?: string) =>
    put<AlertRule>(address(['v1', 'alerts', 'rules', name]), draft, version),
  deleteRule: (name: string) => json<unknown>('DELETE', address(['v1', 'alerts', 'rules', name])),
  dead: (query: Query, abort: AbortSignal) =>
    json<{ data: DeadGroup[]; next_cursor: string | null }>('GET', address(['v1', 'dead'], query), undefined, abort),
  dryRun: (draft: BulkDraft, abort: AbortSignal) => json<DryRun>('POST', '/v1/operations', { ...draft, dry_run: true }, abort),
  operate: (draft: BulkDraft) => json<Operation>('POST', '/v1/operations', draft),
  operations: async (abort: AbortSignal) =>
    (await json<{ data: Operation[] }>('GET', '/v1/operations?limit=50', undefined, abort)).data,
  stop: (id: string) => json<Operation>('POST', address(['v1', 'operations', id, 'stop'])),
  resume: (id: string) => json<Operation>('POST', address(['v1', 'operations', id, 'resume'])),
  events: async (abort: AbortSignal) => (await request('GET', '/v1/events', undefined, abort)).body,
  whoAmI: () => json<Caller>('GET', '/v1/whoami'),
  overview: (abort: AbortSignal) => json<Overview>('GET', '/v1/overview', undefined, abort),
  endpoints: (query: Query, abort: AbortSignal) =>
    json<{ data: Endpoint[]; next_cursor: string | null }>('GET', address(['v1', 'endpoints'], query), undefined, abort),
  tryEndpoint: (endpoint: string) => json<Endpoint>('POST', '/v1/endpoints/try', { endpoint }),
  sendTest: (draft: TestDraft) => json<TestResult>('POST', '/v1/endpoints/test', draft),
};
