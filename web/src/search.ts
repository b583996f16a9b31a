/** The search box of the jobs page: words such as state:dead, and their parameters. */
import { address, type Query } from './address';
import { api, ApiError, serverNow, type BulkFilter } from './api';
import { figure } from './components/form';
import { navigate } from './router';
import { spanMs, t } from './text';

/** The filters of jobs, by the names of the API; true: with several values. */
const filters: Record<string, boolean> = {
  topic: false,
  state: true,
  id: false,
  uid: false,
  order_key: false,
  biz_key: false,
  endpoint: false,
  group_id: false,
  schedule: false,
  labels: true,
  priority: false,
  dialect: false,
  reason: false,
  due_from: false,
  due_to: false,
  created_from: false,
  created_to: false,
};

/** Filters of time, which may also be relative to now. */
const times = ['due_from', 'due_to', 'created_from', 'created_to'];

/** Parameters of addresses beside those of filters, by page. */
const ofPages: Record<string, readonly string[]> = {
  jobs: ['order', 'cursor'],
  dead: ['cursor'],
  topics: ['new', 'q', 'order', 'cursor'],
  schedules: ['new', 'state', 'cursor'],
  groups: ['cursor'],
  endpoints: ['state', 'endpoint', 'cursor'],
  alerts: ['new'],
  operations: ['cursor'],
  register: ['group'],
};

/** The unfinished jobs that nobody has taken and that are due by then. */
export const dueBy = (to: string): Query => [...(['waiting', 'ready', 'retrying'] as const).map((state) => ['state', state] as const), ['due_to', to]];

/** What is wrong with the parameters of an address: a filter that is ignored would select too many jobs. */
export function faultOf(path: string, query: URLSearchParams): string | undefined {
  const [page = '', ...rest] = path.split('/').filter(Boolean);
  const known = rest.length > 0 ? [] : (ofPages[page] ?? []);
  const filtered = rest.length === 0 && (page === 'jobs' || page === 'dead');
  for (const name of new Set(query.keys())) {
    const filter = filtered && Object.hasOwn(filters, name);
    if (!filter && !known.includes(name)) return t('search.unknownParameter', { name });
    if (query.getAll(name).length > 1 && !(filter && filters[name])) return t('search.twice', { name });
    if (filter && query.getAll(name).includes('')) return t('search.empty', { name });
  }
  return undefined;
}

/** The filter in an address, with one pair for each value. */
export function filterOf(query: URLSearchParams): Query {
  return [...query].flatMap(([name, value]): [string, string][] => {
    if (!Object.hasOwn(filters, name)) return [];
    return name === 'state' ? value.split(',').map((one) => [name, one]) : [[name, value]];
  });
}

/** The filter as the text of the search box. */
export const written = (filter: Query): string => filter.map(([name, value]) => `${name}:${value}`).join(' ');

/** A filter for the API: relative times such as 1h become due times. */
export function asked(filter: Query, nowMs: number): Query {
  return filter.map(([name, value]) => {
    if (!times.includes(name)) return [name, value];
    const past = value.startsWith('-');
    const span = value === 'now' ? 0 : spanMs(past ? value.slice(1) : value);
    return [name, span === undefined ? value : new Date(nowMs + (past ? -span : span)).toISOString()];
  });
}

/** A filter for an operation. */
export function bulkFilter(filter: Query): BulkFilter {
  const wanted: BulkFilter = {};
  for (const [name, value] of filter) {
    if (name === 'state') wanted.state = [...(wanted.state ?? []), value];
    else if (name === 'labels') for (const one of splitValues(value)) wanted.labels = { ...wanted.labels, ...labelOf(one) };
    else if (name === 'priority') wanted.priority = figure(value);
    else Object.assign(wanted, { [name]: value });
  }
  return wanted;
}

/** The reverse of bulkFilter. */
export const filterOfBulk = (filter: BulkFilter): Query =>
  Object.entries(filter).flatMap(([name, value]): [string, string][] => {
    if (Array.isArray(value)) return value.map((one) => [name, one]);
    if (typeof value !== 'object') return [[name, String(value)]];
    return Object.entries(value).map(([key, one]) => [name, asValue(`${key}:${one}`)]);
  });

/** A label as typed in a search. */
export function labelOf(written: string): Record<string, string> {
  const [key = '', ...value] = written.split(':');
  return { [key]: value.join(':') };
}

/** The format of a webhook-id: the uid of a job, and in callbacks of that job also the event. */
const webhookId = /^([0-7][0-9A-HJKMNP-TV-Z]{25})([._][a-z_]+[._\d]*)?$/i;

/** A value of a parameter with several: commas separate them, unless a backslash is before one. */
export const asValue = (value: string): string => value.replace(/[\\,]/g, '\\$&');

const splitValues = (text: string): string[] => (text.match(/(\\[\\,]|[^,])+/g) ?? []).map((one) => one.replace(/\\([\\,])/g, '$1'));

/**
 * Opens the result of a search: topic/id opens the job, anything else the list. A bare URL searches its endpoint, a webhook-id
 * its job (that of a callback the job that it reports), any other bare word a business key, or if no job has that, the beginning
 * of an id. Returns what is wrong with the search.
 */
export async function search(typed: string): Promise<string | undefined> {
  const filter: [string, string][] = [];
  let isBare = false;
  for (const word of typed.split(/\s+/).filter(Boolean)) {
    const [, uid] = webhookId.exec(word) ?? [];
    const [, topic, id] = /^([^/]+)\/([^/]+)$/.exec(word) ?? [];
    const [name, value] = wordOf(word);
    if (Object.hasOwn(filters, name)) filter.push([name, value]);
    else if (uid) filter.push(['uid', uid.toUpperCase()]);
    else if (/^https?:\/\//i.test(word)) filter.push(['endpoint', word]);
    else if (topic && id) {
      navigate(address(['jobs', topic, id]));
      return undefined;
    } else if (name) return t('search.unknown', { name, word });
    else {
      filter.push(['biz_key', word]);
      isBare = true;
    }
  }
  const bare = filter.filter(([name]) => name === 'biz_key').map(([, value]) => value);
  if (bare.length > 1) return t('search.severalWords', { words: bare.join(', ') });
  const fault = faultOf('/jobs', new URLSearchParams(filter));
  if (fault) return fault;
  navigate(address(['jobs'], isBare && !filter.some(([name]) => name === 'id') ? await byKeyOrId(filter) : filter));
  return undefined;
}

/** A filter by a business key, or by ids that begin so if there is no such job. */
async function byKeyOrId(filter: Query): Promise<Query> {
  const byId = filter.map(([name, value]) => [name === 'biz_key' ? 'id' : name, value] as const);
  try {
    return (await finds(filter)) || !(await finds(byId)) ? filter : byId;
  } catch (error) {
    if (error instanceof ApiError) return filter; // the page shows why
    throw error;
  }
}

async function finds(filter: Query): Promise<boolean> {
  const { data, next_cursor: more } = await api.jobs([...asked(filter, serverNow()), ['limit', '1']], new AbortController().signal);
  return data.length > 0 || more !== null;
}

/** The name and the value of a word such as state:dead; a word without a colon has no name. */
function wordOf(word: string): [string, string] {
  const at = word.indexOf(':');
  return at < 1 ? ['', word] : [word.slice(0, at), word.slice(at + 1)];
}
