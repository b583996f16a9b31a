import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, conflictActions, type Plan, type Registration } from '../api';
import { Area, Choice, figure, Form, given, Group, headersOf, Input, Moment, retryOf, useForm } from '../components/form';
import { Coming } from '../components/ladder';
import { notify } from '../components/notices';
import { navigate } from '../router';
import { labelOf } from '../search';
import { t } from '../text';

/** The fields of the form, as typed. */
const blank = {
  url: '',
  topic: '',
  id: '',
  biz_key: '',
  labels: '',
  delay: '',
  at: '',
  body: '',
  headers: '',
  steps: '',
  limit: '',
  timeout: '',
  ttl: '',
  expect: '',
  priority: '',
  on_conflict: '',
};
type Draft = typeof blank;

export function RegisterPage() {
  const form = useForm(blank);
  const [plan, setPlan] = useState<Plan>();
  const preview = () => form.ask(async () => setPlan(await api.plan(registration(form.draft))));
  const submit = () =>
    form.ask(async () => {
      const job = await api.register(registration(form.draft));
      notify(t(`register.result_${job.result}`));
      navigate(address(['jobs', job.topic, job.id]));
    });
  const field = (name: keyof Draft, pointer: string) => form.field(name, pointer, t(`register.${name}`));
  return (
    <Form title={t('register.title')} error={form.error} onSubmit={() => void submit()}>
      <Group title={t('register.what')}>
        <Input {...field('url', '/url')} required wide placeholder="https://shop.example/hooks/timeout" />
        <Input {...field('topic', '/topic')} placeholder="default" />
        <Input {...field('id', '/id')} />
        <Input {...field('biz_key', '/biz_key')} />
        <Input {...field('labels', '/labels')} wide placeholder="region:eu plan:team" />
      </Group>
      <Group title={t('register.when')}>
        <Input {...field('delay', '/delay')} placeholder="30m" />
        <Moment {...field('at', '/at')} />
      </Group>
      <Group title={t('register.request')}>
        <Area {...field('body', '/body')} placeholder={'{"order_id": 8812}'} />
        <Area {...field('headers', '/headers')} placeholder="x-tenant: acme" />
      </Group>
      <Group title={t('register.delivery')}>
        <Input {...field('steps', '/retry/steps')} wide placeholder="15s 3m 10m 30m" />
        <Input {...field('limit', '/retry/limit')} placeholder="3" />
        <Input {...field('timeout', '/timeout')} placeholder="10s" />
        <Input {...field('ttl', '/ttl')} placeholder="2h" />
        <Input {...field('expect', '/expect')} placeholder="success" />
        <Input {...field('priority', '/priority')} placeholder="5" />
        <Choice {...field('on_conflict', '/on_conflict')} options={conflictActions} show={(action) => t(`register.${action as (typeof conflictActions)[number]}`)} />
      </Group>
      <div class="actions">
        <button class="primary">{t('register.submit')}</button>
        <button type="button" onClick={() => void preview()}>
          {t('register.plan')}
        </button>
      </div>
      {plan && (
        <section class="card">
          <h2>{t('plan.title')}</h2>
          <ol class="ladder">
            <Coming forecast={plan.ladder} next />
          </ol>
        </section>
      )}
    </Form>
  );
}

/** The request of the form, without empty fields. */
function registration(draft: Draft): Registration {
  const { at, expect, headers, steps, limit, priority, body, url, labels, ...plain } = draft;
  const wanted: Registration = { url, ...given(plain) };
  if (at) wanted.at = new Date(at).toISOString();
  if (expect) wanted.expect = { body: expect };
  if (priority) wanted.priority = figure(priority);
  if (headers.trim()) wanted.headers = headersOf(headers);
  if (labels.trim()) wanted.labels = labelsOf(labels);
  if (steps || limit) wanted.retry = retryOf(steps, limit);
  if (body) Object.assign(wanted, bodyOf(body));
  return wanted;
}

/** Labels as typed, separated by spaces. */
const labelsOf = (typed: string): Record<string, string> =>
  typed
    .split(/\s+/)
    .filter(Boolean)
    .reduce((all, label) => ({ ...all, ...labelOf(label) }), {});

/** Sends the body as JSON if it is JSON, else as text. */
function bodyOf(typed: string): Pick<Registration, 'body' | 'body_text'> {
  try {
    return { body: JSON.parse(typed) as unknown };
  } catch {
    return { body_text: typed };
  }
}
