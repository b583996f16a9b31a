import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, ApiError, mayAdmin, onDead, usualPriority, type TopicDraft, type TopicSettings } from '../api';
import { blankCallbacks, CallbackFields, callbacksOf, typedCallbacks, type CallbackDraft } from '../components/callbacks';
import { Dialog } from '../components/dialog';
import { Area, Choice, figure, Form, givenOf, Group, headersOf, headersText, Input, retryOf, useForm } from '../components/form';
import { notify } from '../components/notices';
import { Crumb, Loaded, Writable } from '../components/page';
import { Signing } from '../components/signing';
import { useResource } from '../live';
import { navigate } from '../router';
import { t } from '../text';

const limits = ['capacity', 'rate', 'concurrency', 'weight'] as const;
const texts = ['on_dead', 'timeout', 'ttl', 'spread'] as const;

/** The fields of the form, as typed. */
const blank = {
  name: '',
  destination: '',
  capacity: '',
  rate: '',
  concurrency: '',
  weight: '',
  on_dead: '',
  steps: '',
  limit: '',
  timeout: '',
  ttl: '',
  headers: '',
  priority: '',
  spread: '',
  ...blankCallbacks,
};
type Draft = typeof blank;

/** Creates a topic or changes its settings. */
export function TopicFormPage({ topic }: { topic?: string }) {
  return (
    <>
      <Crumb to={topic ? address(['topics', topic]) : '/topics'}>{topic ?? t('nav.topics')}</Crumb>
      <Writable>{topic === undefined ? <TopicForm settings={null} /> : <Stored topic={topic} />}</Writable>
    </>
  );
}

/** Loaded once, so that later changes do not overwrite the input. */
function Stored({ topic }: { topic: string }) {
  const found = useResource(address(['edit', topic]), (abort) => settingsOf(topic, abort), true);
  return (
    <Loaded of={found}>
      {({ settings, version }) => (
        <>
          <TopicForm topic={topic} settings={settings} version={version} />
          {mayAdmin.value && <Signing topic={topic} />}
          {settings && <Reset topic={topic} />}
        </>
      )}
    </Loaded>
  );
}

/** Settings with the topic's version. */
interface Found {
  settings: TopicSettings | null;
  version?: string | undefined;
}

async function settingsOf(topic: string, abort: AbortSignal): Promise<Found> {
  try {
    const { content, version } = await api.topicToEdit(topic, abort);
    return { settings: content.settings, version };
  } catch (error) {
    if (error instanceof ApiError && error.problem.status === 404) return { settings: null };
    throw error;
  }
}

function TopicForm({ topic, settings, version }: Found & { topic?: string }) {
  const form = useForm(typed(settings));
  const field = (name: Exclude<keyof Draft, keyof CallbackDraft>, pointer = `/${name}`) => form.field(name, pointer, t(`setting.${name}`));
  const submit = () =>
    form.ask(async () => {
      const name = topic ?? form.draft.name.trim();
      await api.putTopic(name, { ...withoutField(settings), ...asked(form.draft, settings) }, version);
      notify(t('topic.saved'));
      navigate(address(['topics', name]));
    });
  return (
    <Form title={topic ? t('topic.edit', { topic }) : t('topic.new')} error={form.error} onSubmit={() => void submit()}>
      {topic === undefined && (
        <Group title={t('job.topic')}>
          <Input {...field('name', '/topic')} required wide placeholder="order-timeout" />
        </Group>
      )}
      <Group title={t('topic.limits')} hint={t('topic.limitsHint')}>
        <Input {...field('capacity')} placeholder={t('setting.none')} />
        <Input {...field('rate')} placeholder={t('setting.none')} />
        <Input {...field('concurrency')} placeholder={t('setting.none')} />
        <Input {...field('weight')} placeholder="10" />
        <Choice {...field('on_dead')} options={onDead} show={(effect) => t(`on_dead.${effect as (typeof onDead)[number]}`)} />
      </Group>
      <Group title={t('topic.defaults')} hint={t('topic.defaultsHint')}>
        <Input {...field('destination', '/url')} wide placeholder="https://shop.example/hooks/timeout" />
        <Input {...field('steps', '/retry/steps')} wide placeholder="15s 3m 10m 30m" />
        <Input {...field('limit', '/retry/limit')} placeholder="3" />
        <Input {...field('timeout')} placeholder="10s" />
        <Input {...field('ttl')} placeholder="2h" />
        <Input {...field('priority')} placeholder={String(usualPriority)} />
        <Input {...field('spread')} placeholder="5m" />
        <Area {...field('headers')} placeholder="x-tenant: acme" />
      </Group>
      <CallbackFields field={form.field} hint="callback.topicHint" />
      <div class="actions">
        <button class="primary">{t('action.save')}</button>
      </div>
    </Form>
  );
}

const withField = new Set<string>([...limits, ...texts, 'priority', 'url', 'retry', 'headers', 'callbacks']);

/** The settings without a field in this form, which stay. */
const withoutField = (settings: TopicSettings | null): TopicDraft =>
  Object.fromEntries(Object.entries(settings ?? {}).filter(([name, value]) => value !== null && !withField.has(name)));

/** Settings as form fields. */
function typed(settings: TopicSettings | null): Draft {
  if (!settings) return blank;
  const { retry, headers } = settings;
  const text = (value: string | number | null | undefined) => String(value ?? '');
  return {
    ...blank,
    ...Object.fromEntries([...limits, ...texts, 'priority' as const].map((name) => [name, text(settings[name])])),
    ...typedCallbacks(settings.callbacks),
    destination: text(settings.url),
    steps: (retry?.steps ?? []).join(' '),
    limit: text(retry?.limit),
    headers: headersText(headers),
  };
}

/** The request of the form, without empty fields. */
function asked(draft: Draft, stored: TopicSettings | null): TopicDraft {
  const { destination, steps, limit, headers } = draft;
  const numbers = (names: readonly (keyof Draft)[]) => Object.fromEntries(Object.entries(givenOf(draft, names)).map(([name, value]) => [name, figure(value)]));
  const callbacks = callbacksOf(draft, stored?.callbacks);
  return {
    ...numbers([...limits, 'priority']),
    ...givenOf(draft, texts),
    ...(destination.trim() ? { url: destination.trim() } : {}),
    ...(callbacks ? { callbacks } : {}),
    ...(steps.trim() || limit.trim() ? { retry: retryOf(steps, limit) } : {}),
    ...(headers.trim() ? { headers: headersOf(headers) } : {}),
  };
}

function Reset({ topic }: { topic: string }) {
  const [asking, ask] = useState(false);
  const reset = async () => {
    await api.deleteTopic(topic);
    navigate(address(['topics', topic]));
  };
  return (
    <div class="actions">
      <button class="grave" onClick={() => ask(true)}>
        {t('topic.reset')}
      </button>
      {asking && (
        <Dialog title={t('topic.resetTitle', { topic })} action={t('topic.reset')} grave run={reset} done="topic.wasReset" onClose={() => ask(false)}>
          <p>{t('topic.resetExplain')}</p>
        </Dialog>
      )}
    </div>
  );
}
