/** The one search box of the jobs page: words such as state:dead, and the parameters that they stand for. */
import { address, type Query } from './address';
import type { BulkFilter } from './api';
import { figure } from './components/form';
import { navigate } from './router';
import { spanMs } from './text';

/** What is typed before the colon, and the parameter of the API and of the address. */
const parameters: Record<string, string> = {
  topic: 'topic',
  state: 'state',
  biz: 'biz_key',
  id: 'id',
  uid: 'uid',
  endpoint: 'endpoint',
  label: 'label',
  priority: 'priority',
  reason: 'reason',
  from: 'due_from',
  to: 'due_to',
};

/** The filter that an address holds. */
export function filterOf(query: URLSearchParams): Query {
  const known = new Set(Object.values(parameters));
  return [...query].filter(([name, value]) => known.has(name) && value);
}

/** A filter as one would type it. */
export function written(filter: Query): string {
  const typed = new Map(Object.entries(parameters).map(([name, parameter]) => [parameter, name]));
  return filter.map(([parameter, value]) => `${typed.get(parameter)}:${value}`).join(' ');
}

/** A filter as the API wants it: due times may be written as spans from now, such as 1h. */
export function asked(filter: Query, nowMs: number): Query {
  return filter.map(([name, value]) => {
    if (name !== 'due_from' && name !== 'due_to') return [name, value];
    const span = value === 'now' ? 0 : spanMs(value);
    return [name, span === undefined ? value : new Date(nowMs + span).toISOString()];
  });
}

/** A filter as operations on many jobs want it. */
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

/** A label as it is written in a search. */
export function labelOf(written: string): Record<string, string> {
  const [key = '', ...value] = written.split(':');
  return { [key]: value.join(':') };
}

/** What a webhook-id looks like. */
const uid = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/i;

/**
 * Goes where a search leads: topic/id to that job, everything else to the list. A URL is its endpoint's jobs, a webhook-id
 * its job, another bare word a business key.
 */
export function search(typed: string): void {
  const filter: [string, string][] = [];
  for (const word of typed.split(/\s+/).filter(Boolean)) {
    const [, name = '', value = ''] = /^(\w+):(.+)$/.exec(word) ?? [];
    const [, topic, id] = /^([^/]+)\/([^/]+)$/.exec(word) ?? [];
    if (parameters[name]) filter.push([parameters[name], value]);
    else if (uid.test(word)) filter.push(['uid', word.toUpperCase()]);
    else if (/^https?:\/\//i.test(word)) filter.push(['endpoint', word]);
    else if (topic && id) {
      navigate(address(['jobs', topic, id]));
      return;
    } else filter.push(['biz_key', word]);
  }
  navigate(address(['jobs'], filter));
}
