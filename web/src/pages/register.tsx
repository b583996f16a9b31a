import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, ApiError, type Plan, type Registration } from '../api';
import { Coming } from '../components/ladder';
import { notify } from '../components/notices';
import { ProblemNote } from '../components/problem';
import { navigate } from '../router';
import { t, type Key } from '../text';

/** The form's fields, as typed. */
const blank = {
  url: '',
  topic: '',
  id: '',
  biz_key: '',
  delay: '',
  at: '',
  body: '',
  headers: '',
  steps: '',
  limit: '',
  timeout: '',
  ttl: '',
  expect: '',
  on_conflict: '',
};
type Draft = typeof blank;

export function RegisterPage() {
  const [draft, setDraft] = useState(blank);
  const [error, setError] = useState<ApiError>();
  const set = (name: keyof Draft) => (value: string) => setDraft({ ...draft, [name]: value });
  const [plan, setPlan] = useState<Plan>();
  /** Asks the API, and shows at the fields what it refuses. */
  const ask = async (call: (draft: Registration) => Promise<void>) => {
    try {
      await call(registration(draft));
      setError(undefined);
    } catch (refused) {
      if (!(refused instanceof ApiError)) throw refused;
      setError(refused);
    }
  };
  const preview = () => ask(async (wanted) => setPlan(await api.plan(wanted)));
  const submit = () =>
    ask(async (wanted) => {
      const job = await api.register(wanted);
      notify(t('register.done'));
      navigate(address(['jobs', job.topic, job.id]));
    });
  const field = (name: keyof Draft, pointer: string) => ({
    value: draft[name],
    set: set(name),
    label: t(`register.${name}`),
    wrong: error?.problem.errors.filter((one) => one.pointer === pointer || one.pointer.startsWith(`${pointer}/`)).map((one) => one.message),
  });
  return (
    <form
      class="register"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <h1>{t('register.title')}</h1>
      {error && <ProblemNote error={error} />}
      <Group title="register.what">
        <Input {...field('url', '/url')} required wide placeholder="https://shop.example/hooks/timeout" />
        <Input {...field('topic', '/topic')} placeholder="default" />
        <Input {...field('id', '/id')} />
        <Input {...field('biz_key', '/biz_key')} />
      </Group>
      <Group title="register.when">
        <Input {...field('delay', '/delay')} placeholder="30m" />
        <Moment {...field('at', '/at')} />
      </Group>
      <Group title="register.request">
        <Area {...field('body', '/body')} placeholder={'{"order_id": 8812}'} />
        <Area {...field('headers', '/headers')} placeholder="x-tenant: acme" />
      </Group>
      <Group title="register.delivery">
        <Input {...field('steps', '/retry/steps')} wide placeholder="15s 3m 10m 30m" />
        <Input {...field('limit', '/retry/limit')} placeholder="3" />
        <Input {...field('timeout', '/timeout')} placeholder="10s" />
        <Input {...field('ttl', '/ttl')} placeholder="2h" />
        <Input {...field('expect', '/expect')} placeholder="success" />
        <Choice {...field('on_conflict', '/on_conflict')} options={['reject', 'ignore', 'replace']} />
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
    </form>
  );
}

/** What the form says, as the API wants it. Fields that are empty are left out. */
function registration(draft: Draft): Registration {
  const { topic, id, biz_key, delay, timeout, ttl, on_conflict } = draft;
  const given = Object.fromEntries(Object.entries({ topic, id, biz_key, delay, timeout, ttl, on_conflict }).filter(([, value]) => value));
  const wanted: Registration = { url: draft.url, ...given };
  if (draft.at) wanted.at = new Date(draft.at).toISOString();
  if (draft.expect) wanted.expect = { body: draft.expect };
  if (draft.headers.trim()) wanted.headers = headersOf(draft.headers);
  if (draft.steps || draft.limit) {
    wanted.retry = {};
    if (draft.steps) wanted.retry.steps = draft.steps.split(/[\s,]+/).filter(Boolean);
    if (draft.limit) wanted.retry.limit = Number(draft.limit);
  }
  if (draft.body) Object.assign(wanted, bodyOf(draft.body));
  return wanted;
}

/** What is JSON is sent as JSON, everything else as text. */
function bodyOf(typed: string): Pick<Registration, 'body' | 'body_text'> {
  try {
    return { body: JSON.parse(typed) as unknown };
  } catch {
    return { body_text: typed };
  }
}

const headersOf = (typed: string): Record<string, string> =>
  Object.fromEntries(
    typed
      .split('\n')
      .filter((line) => line.trim())
      .map((line) => {
        const [name = '', ...value] = line.split(':');
        return [name.trim(), value.join(':').trim()];
      }),
  );

function Group({ title, children }: { title: Key; children: ComponentChildren }) {
  return (
    <fieldset class="card">
      <legend>{t(title)}</legend>
      {children}
    </fieldset>
  );
}

interface FieldProps {
  label: string;
  value: string;
  set: (value: string) => void;
  wrong: string[] | undefined;
}

function Field({ label, wrong, wide = false, children }: Pick<FieldProps, 'label' | 'wrong'> & { wide?: boolean; children: ComponentChildren }) {
  return (
    <label class={wide ? 'field wide' : 'field'}>
      <span>{label}</span>
      {children}
      {wrong?.map((message) => (
        <span key={message} class="wrong">
          {message}
        </span>
      ))}
    </label>
  );
}

interface InputProps extends FieldProps {
  placeholder?: string;
  required?: boolean;
  wide?: boolean;
}

function Input({ label, value, set, wrong, wide = false, required = false, placeholder = '' }: InputProps) {
  const bad = Boolean(wrong?.length);
  return (
    <Field label={label} wrong={wrong} wide={wide}>
      <input
        value={value}
        onInput={(e) => set(e.currentTarget.value)}
        aria-invalid={bad}
        required={required}
        placeholder={placeholder}
        spellcheck={false}
        autocomplete="off"
      />
    </Field>
  );
}

function Moment({ label, value, set, wrong }: FieldProps) {
  return (
    <Field label={label} wrong={wrong}>
      <input type="datetime-local" step="1" value={value} onInput={(e) => set(e.currentTarget.value)} />
    </Field>
  );
}

function Area({ label, value, set, wrong, placeholder }: FieldProps & { placeholder: string }) {
  const bad = Boolean(wrong?.length);
  return (
    <Field label={label} wrong={wrong} wide>
      <textarea rows={4} value={value} onInput={(e) => set(e.currentTarget.value)} aria-invalid={bad} spellcheck={false} placeholder={placeholder} />
    </Field>
  );
}

function Choice({ label, value, set, wrong, options }: FieldProps & { options: string[] }) {
  return (
    <Field label={label} wrong={wrong}>
      <select value={value} onChange={(e) => set(e.currentTarget.value)}>
        <option value="">{t('register.default')}</option>
        {options.map((option) => (
          <option key={option} value={option}>
            {option}
          </option>
        ))}
      </select>
    </Field>
  );
}
