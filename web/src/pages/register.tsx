import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, atDeadline, conflictActions, methods, type Plan, type Registration } from '../api';
import { blankCallbacks, CallbackFields, callbacksOf, type CallbackDraft } from '../components/callbacks';
import { Area, Choice, figure, Fold, Form, givenOf, Group, headersOf, Input, Moment, retryOf, Tick, useForm } from '../components/form';
import { Coming } from '../components/ladder';
import { notify } from '../components/notices';
import { navigate, place } from '../router';
import { labelOf } from '../search';
import { count, t } from '../text';

/** The fields of the form, as typed. */
const blank = {
  url: '',
  pull: '',
  group: '',
  filter_label: '',
  topic: '',
  id: '',
  biz_key: '',
  order_key: '',
  labels: '',
  delay: '',
  at: '',
  spread: '',
  target: '',
  at_deadline: '',
  body: '',
  method: '',
  headers: '',
  steps: '',
  limit: '',
  timeout: '',
  ttl: '',
  expect: '',
  priority: '',
  on_conflict: '',
  ...blankCallbacks,
};
type Draft = typeof blank;

/** The fields that jobs which consumers fetch do not have. */
const pushOnly = { url: '', group: '', filter_label: '', method: '', timeout: '', expect: '' };

/** The fields that the API takes as typed. */
const texts = ['url', 'group', 'filter_label', 'topic', 'id', 'biz_key', 'order_key', 'delay', 'spread', 'method', 'timeout', 'ttl', 'on_conflict'] as const;

/** The API's fields that are always shown; the others are folded. */
const shown = ['/url', '/pull', '/topic', '/id', '/delay', '/at', '/body'];

export function RegisterPage() {
  const form = useForm({ ...blank, group: place.value.query.get('group') ?? '' });
  const [plan, setPlan] = useState<Plan>();
  const wrongInside = form.error?.problem.errors.some(({ pointer }) => !shown.includes(pointer)) ?? false;
  const preview = () => form.ask(async () => setPlan(await api.plan(registration(form.draft))));
  const submit = () =>
    form.ask(async () => {
      const job = await api.register(registration(form.draft));
      if ('jobs' in job) {
        notify(t('register.fanOut', { n: count(job.jobs.length) }));
        navigate(address(['jobs'], [['topic', job.jobs[0]?.topic ?? form.draft.topic], ['group_id', job.group_id]]));
        return;
      }
      notify(t(`register.result_${job.result}`));
      navigate(address(['jobs', job.topic, job.id]));
    });
  const pulled = form.draft.pull !== '';
  const grouped = !pulled && form.draft.group.trim() !== '';
  const field = (name: Exclude<keyof Draft, keyof CallbackDraft>, pointer: string) => form.field(name, pointer, t(`register.${name}`));
  return (
    <Form title={t('register.title')} error={form.error} onSubmit={() => void submit()}>
      <Group title={t('register.what')}>
        {!pulled && <Input {...field('url', '/url')} required={!grouped} wide placeholder="https://shop.example/hooks/timeout" />}
        <Tick {...field('pull', '/pull')} />
        <Input {...field('topic', '/topic')} placeholder="default" />
        <Input {...field('id', '/id')} />
        <Input {...field('delay', '/delay')} placeholder="30m" />
        <Moment {...field('at', '/at')} />
        <Area {...field('body', '/body')} placeholder={'{"order_id": 8812}'} />
      </Group>
      <Fold filled={form.draft.group !== ''} wrong={wrongInside}>
        <Group title={t('register.names')}>
          {!pulled && <Input {...field('group', '/group')} placeholder="order-events" />}
          {!pulled && <Input {...field('filter_label', '/filter_label')} />}
          <Input {...field('biz_key', '/biz_key')} />
          <Input {...field('order_key', '/order_key')} placeholder="customer-8812" />
          <Input {...field('labels', '/labels')} wide placeholder="region:eu plan:team" />
        </Group>
        <Group title={t('register.when')}>
          <Input {...field('spread', '/spread')} placeholder="5m" />
          <Input {...field('target', '/count/target')} placeholder="100" />
          <Choice {...field('at_deadline', '/count/at_deadline')} options={atDeadline} show={(effect) => t(`deadline.${effect as (typeof atDeadline)[number]}`)} />
        </Group>
        <Group title={t('register.request')}>
          {!pulled && <Choice {...field('method', '/method')} options={methods} />}
          <Area {...field('headers', '/headers')} placeholder="x-tenant: acme" />
        </Group>
        <Group title={t('register.delivery')}>
          <Input {...field('steps', '/retry/steps')} wide placeholder="15s 3m 10m 30m" />
          <Input {...field('limit', '/retry/limit')} placeholder="3" />
          {!pulled && <Input {...field('timeout', '/timeout')} placeholder="10s" />}
          <Input {...field('ttl', '/ttl')} placeholder="2h" />
          {!pulled && <Input {...field('expect', '/expect')} placeholder="success" />}
          <Input {...field('priority', '/priority')} placeholder="5" />
          <Choice {...field('on_conflict', '/on_conflict')} options={conflictActions} show={(action) => t(`register.${action as (typeof conflictActions)[number]}`)} />
        </Group>
        <CallbackFields field={form.field} hint="callback.hint" />
      </Fold>
      <div class="actions">
        <button class="primary">{t('register.submit')}</button>
        {!grouped && (
          <button type="button" onClick={() => void preview()}>
            {t('register.plan')}
          </button>
        )}
      </div>
      {plan && (
        <section class="card">
          <p>{t('plan.others', { second: count(plan.others_due.same_second), minute: count(plan.others_due.same_minute) })}</p>
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
function registration(typed: Draft): Registration {
  const draft = typed.pull ? { ...typed, ...pushOnly } : typed;
  const { at, target, at_deadline: deadline, expect, headers, steps, limit, priority, body, labels } = draft;
  const wanted: Registration = givenOf(draft, texts);
  if (draft.pull) wanted.pull = true;
  if (at) wanted.at = new Date(at).toISOString();
  if (expect) wanted.expect = { body: expect };
  if (target || deadline) wanted.count = { ...(target ? { target: figure(target) } : {}), ...(deadline ? { at_deadline: deadline } : {}) };
  if (priority) wanted.priority = figure(priority);
  if (headers.trim()) wanted.headers = headersOf(headers);
  if (labels.trim()) wanted.labels = labelsOf(labels);
  if (steps || limit) wanted.retry = retryOf(steps, limit);
  const callbacks = callbacksOf(draft);
  if (callbacks) wanted.callbacks = callbacks;
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
