// @ts-check
/** A client whose types are generated from the OpenAPI document. `npm run check` compiles it. */
import createClient from 'openapi-fetch';

/** @typedef {import('../../generated/openapi').paths} paths */

/** @param {string} baseUrl */
export function generated(baseUrl) {
  /** @type {import('openapi-fetch').Client<paths>} */
  const client = createClient({ baseUrl });
  return {
    /** @param {string} topic @param {string} id @param {string} url */
    async register(topic, id, url) {
      const { data, error, response } = await client.POST('/v1/jobs', { body: { topic, id, url, delay: '1h', body: { paid: true } } });
      if (error) throw new Error(`${response.status} ${error.code}`);
      if (!('uid' in data)) throw new Error('a fan-out');
      return data;
    },
    /** @param {string} topic @param {string} id */
    async job(topic, id) {
      const { data, error } = await client.GET('/v1/jobs/{topic}/{id}', { params: { path: { topic, id } } });
      return data ? { state: data.state, dueAt: data.due_at, headers: data.headers } : { code: error.code };
    },
    /** @param {string} topic */
    async waiting(topic) {
      const { data } = await client.GET('/v1/jobs', { params: { query: { topic, state: ['waiting', 'ready'], limit: 10 } } });
      return data?.data.map(({ id }) => id);
    },
    async schedule() {
      const job = { topic: 'reports', url: 'https://shop.example/hooks/report' };
      const put = await client.PUT('/v1/schedules/{schedule}', { params: { path: { schedule: 'nightly' } }, body: { cron: '30 2 * * *', timezone: 'America/New_York', job } });
      const { data } = await client.GET('/v1/schedules', {});
      return { next: put.data?.next.length, listed: data?.data.map(({ name, next_at }) => ({ name, coming: next_at !== null })) };
    },
    async attempts() {
      const { data } = await client.GET('/v1/activity', { params: { query: { window: '24h' } } });
      return data?.delivered.length;
    },
    /** @param {string} topic @param {string} id */
    async cancel(topic, id) {
      const { data } = await client.DELETE('/v1/jobs/{topic}/{id}', { params: { path: { topic, id } } });
      return data?.result;
    },
  };
}
