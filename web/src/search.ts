/** The search box of the jobs page: words such as state:dead, and their parameters. */
import { address, type Query } from './address';
import type { BulkFilter } from './api';
import { figure } from './components/form';
import { navigate } from './router';
import { spanMs } from './text';

/** The word before the colon, and its parameter in the API and the address. */
const parameters: Record<string, string> = {
  topic: 'topic',
  state: 'state',
  biz: 'biz_key',
  order: 'order_key',
  id: 'id',
  uid: 'uid',
  endpoint: 'endpoint',
  label: 'label',
  priority: 'priority',
  reason: 'reason',
  schedule: 'schedule',
  group: 'group_id',
  from: 'due_from',
  to: 'due_to',
};

/** The filter in an address. */
export function filterOf(query: URLSearchParams): Query {
  const known = new Set(Object.values(parameters));
  return [...query].filter(([name, value]) => known.has(name) && value);
}

/** A filter as typed in the search box. */
export function written(filter: Query): string {
  const typed = new Map(Object.entries(parameters).map(([name, parameter]) => [parameter, name]));
  return filter.map(([parameter, value]) => `${typed.get(parameter) ?? parameter}:${value}`).join(' ');
}

/** A filter for the API: relative times such as 1h become due times. */
export function asked(filter: Query, nowMs: number): Query {
  return filter.map(([name, value]) => {
    if (name !== 'due_from' && name !== 'due_to') return [name, value];
    const span = value === 'now' ? 0 : spanMs(value);
    return [name, span === undefined ? value : new Date(nowMs + span).toISOString()];
  });
}

/** A filter for an operation. */
export function bulkFilter(filter: Query): BulkFilter {
  const wanted: BulkFilter = {};
  for (const [name, value] of filter) {
    if (name === 'state') wanted.state = [...(wanted.state ?? []), value];
    else if (name === 'label') wanted.label = { ...wanted.label, ...labelOf(value) };
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
    return Object.entries(value).map(([key, one]) => [name, `${key}:${one}`]);
  });

/** A label as typed in a search. */
export function labelOf(written: string): Record<string, string> {
  const [key = '', ...value] = written.split(':');
  return { [key]: value.join(':') };
}

/** The format of a webhook-id: the uid of a job, and in callbacks of that job also the event. */
const webhookId = /^([0-7][0-9A-HJKMNP-TV-Z]{25})(\.[a-z_]+[.\d]*)?$/i;

/**
 * Opens the result of a search: topic/id opens the job, anything else the list. A bare URL searches its endpoint, a webhook-id
 * its job (that of a callback the job that it reports), any other bare word a business key.
 */
export function search(typed: string): void {
  const filter: [string, string][] = [];
  for (const word of typed.split(/\s+/).filter(Boolean)) {
    const [, name = '', value = ''] = /^(\w+):(.+)$/.exec(word) ?? [];
    const [, uid] = webhookId.exec(word) ?? [];
    const [, topic, id] = /^([^/]+)\/([^/]+)$/.exec(word) ?? [];
    if (parameters[name]) filter.push([parameters[name], value]);
    else if (uid) filter.push(['uid', uid.toUpperCase()]);
    else if (/^https?:\/\//i.test(word)) filter.push(['endpoint', word]);
    else if (topic && id) {
      navigate(address(['jobs', topic, id]));
      return;
    } else filter.push(['biz_key', word]);
  }
  navigate(address(['jobs'], filter));
}
