/** Lists that begin with the jobs that need a look: those that failed and are tried again, and those that are overdue. */
import type { Query } from './address';
import { api, serverNow, type Job, type JobPage } from './api';

/** The order in addresses. The API has no such order: these are three lists, one after the other. */
export const needed = 'need';

/** Whether a filter leaves states and times open, which the lists choose. */
export const choosable = (filter: Query): boolean => !filter.some(([name]) => name === 'state' || name === 'due_from' || name === 'due_to');

/** A page of at most limit jobs. A cursor is the number of a list and the cursor in it. */
export async function jobsByNeed(filter: Query, cursor: string | null, limit: number, abort: AbortSignal): Promise<JobPage> {
  const now = serverNow();
  const lists: Query[] = [[['state', 'retrying']], [['state', 'waiting'], ['state', 'ready'], ['due_to', new Date(now).toISOString()]], []];
  const [, part = '0', place = ''] = /^(\d)\.(.*)$/.exec(cursor ?? '') ?? [];
  const rows: Job[] = [];
  let at = place;
  for (let list = Number(part); list < lists.length; list++, at = '') {
    const query: Query = [...filter, ...(lists[list] ?? []), ...(at ? [['cursor', at] as const] : []), ['limit', String(limit - rows.length)]];
    const page = await api.jobs(query, abort);
    rows.push(...(list < lists.length - 1 ? page.data : page.data.filter((job) => !needs(job, now))));
    const next = page.next_cursor ? `${list}.${page.next_cursor}` : list + 1 < lists.length ? `${list + 1}.` : null;
    if (page.next_cursor || rows.length >= limit || next === null) return { data: rows, next_cursor: next };
  }
  return { data: rows, next_cursor: null };
}

/** Whether a job is in one of the first lists. */
const needs = ({ state, next_at: next, due_at: due }: Job, now: number): boolean =>
  state === 'retrying' || ((state === 'waiting' || state === 'ready') && Date.parse(next ?? due) < now);
