/** Form elements: fields as typed, with the API's error for each. */
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { ApiError, type Retry } from '../api';
import { t } from '../text';
import { describe } from './problem';

export interface FieldProps {
  label: string;
  value: string;
  set: (value: string) => void;
  wrong?: string[] | undefined;
}

interface FormState<Name extends string> {
  draft: Record<Name, string>;
  error: ApiError | undefined;
  /** The properties of the field at the API's `pointer`. */
  field: (name: Name, pointer: string, label: string) => FieldProps;
  /** Calls the API and shows its errors at the fields. */
  ask: (call: () => Promise<void>) => Promise<void>;
}

export function useForm<Name extends string>(initial: Record<Name, string>): FormState<Name> {
  const [draft, setDraft] = useState(initial);
  const [error, setError] = useState<ApiError>();
  return {
    draft,
    error,
    field: (name, pointer, label) => ({
      value: draft[name],
      set: (value) => setDraft({ ...draft, [name]: value }),
      label,
      wrong: wrongAt(error, pointer),
    }),
    async ask(call) {
      try {
        await call();
        setError(undefined);
      } catch (refused) {
        if (!(refused instanceof ApiError)) throw refused;
        setError(refused);
      }
    },
  };
}

/** The error of a field or a part of it. */
export const wrongAt = (error: ApiError | undefined, pointer: string): string[] | undefined =>
  error?.problem.errors.filter((one) => one.pointer === pointer || one.pointer.startsWith(`${pointer}/`)).map((one) => one.message);

/** The non-empty fields of a form. */
export const given = <T extends Record<string, string>>(draft: T): Partial<T> =>
  Object.fromEntries(Object.entries(draft).filter(([, value]) => value.trim())) as Partial<T>;

/** The non-empty fields of these names. */
export const givenOf = <T extends Record<string, string>, Name extends keyof T & string>(draft: T, names: readonly Name[]): Partial<Pick<T, Name>> =>
  given(Object.fromEntries(names.map((name) => [name, draft[name]])) as Pick<T, Name>);

/** A number as typed. The API rejects anything else. */
export const figure = (typed: string): number | string => (Number.isNaN(Number(typed)) ? typed : Number(typed));

/** A ladder as typed: steps separated by spaces or commas. */
export const retryOf = (steps: string, limit: string): Retry => ({
  ...(steps.trim() ? { steps: steps.split(/[\s,]+/).filter(Boolean) } : {}),
  ...(limit.trim() ? { limit: figure(limit) } : {}),
});

/** Headers as typed, one per line. */
export const headersOf = (typed: string): Record<string, string> =>
  Object.fromEntries(
    typed
      .split('\n')
      .filter((line) => line.trim())
      .map((line) => {
        const [name = '', ...value] = line.split(':');
        return [name.trim(), value.join(':').trim()];
      }),
  );

/** The reverse of headersOf. */
export const headersText = (headers: Record<string, string> | null | undefined): string =>
  Object.entries(headers ?? {})
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n');

interface FormProps {
  /** The heading, if the form is the page. */
  title?: string;
  error: ApiError | undefined;
  onSubmit: () => void;
  children: ComponentChildren;
}

/** A page with a form. The first wrong field gets the focus. */
export function Form({ title, error, onSubmit, children }: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (error) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [error]);
  return (
    <form
      ref={form}
      class="register"
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      {title && <h1>{title}</h1>}
      {error && (
        <p class="problem" role="alert">
          {error.problem.errors.length > 0 ? t('form.wrong') : describe(error)}
        </p>
      )}
      {children}
    </form>
  );
}

interface GroupProps {
  title: string;
  hint?: string;
  /** The error of the group as a whole. */
  wrong?: string[] | undefined;
  children: ComponentChildren;
}

export function Group({ title, hint, wrong, children }: GroupProps) {
  return (
    <fieldset class="card">
      <legend>{title}</legend>
      {hint && <p class="hint wide">{hint}</p>}
      <Wrong messages={wrong} />
      {children}
    </fieldset>
  );
}

/** Fields that few need. They are unfolded at first if some are filled, and always if one of them is wrong. */
export function Fold({ filled, wrong, children }: { filled: boolean; wrong: boolean; children: ComponentChildren }) {
  const [unfolded, unfold] = useState(filled);
  return (
    <details open={unfolded || wrong} onToggle={(event) => unfold(event.currentTarget.open)}>
      <summary>{t('register.more')}</summary>
      {children}
    </details>
  );
}

function Wrong({ messages, id }: { messages: string[] | undefined; id?: string }) {
  if (!messages?.length) return null;
  return (
    <p class="wrong wide" id={id}>
      {messages.join('; ')}
    </p>
  );
}

/** The ARIA attributes of a field's control. */
interface Control {
  id: string;
  'aria-invalid': boolean;
  'aria-describedby': string | undefined;
}

interface FrameProps extends Pick<FieldProps, 'label' | 'wrong'> {
  wide?: boolean;
  after?: ComponentChildren;
  children: (control: Control) => ComponentChildren;
}

function Field({ label, wrong, wide = false, after, children }: FrameProps) {
  const id = useId();
  const bad = Boolean(wrong?.length);
  return (
    <div class={wide ? 'field wide' : 'field'}>
      <label for={id}>{label}</label>
      {children({ id, 'aria-invalid': bad, 'aria-describedby': bad ? `${id}-wrong` : undefined })}
      {after}
      <Wrong messages={wrong} id={`${id}-wrong`} />
    </div>
  );
}

interface InputProps extends FieldProps {
  placeholder?: string;
  required?: boolean;
  wide?: boolean;
  /** The id of a datalist. */
  list?: string;
  secret?: boolean;
}

export function Input({ value, set, required = false, placeholder = '', list, secret = false, ...frame }: InputProps) {
  return (
    <Field {...frame}>
      {(control) => (
        <input
          {...control}
          {...(secret ? { type: 'password' as const } : list === undefined ? {} : { list })}
          value={value}
          onInput={(e) => set(e.currentTarget.value)}
          required={required}
          placeholder={placeholder}
          spellcheck={false}
          autocomplete="off"
        />
      )}
    </Field>
  );
}

/** A time in the zone of the browser, which it names. */
export function Moment({ value, set, required = false, ...frame }: FieldProps & { required?: boolean }) {
  return (
    <Field {...frame} after={<small class="hint">{t('form.zone', { zone: Intl.DateTimeFormat().resolvedOptions().timeZone })}</small>}>
      {(control) => <input {...control} type="datetime-local" step="1" required={required} value={value} onInput={(e) => set(e.currentTarget.value)} />}
    </Field>
  );
}

export function Area({ value, set, placeholder = '', rows = 3, ...frame }: FieldProps & { placeholder?: string; rows?: number }) {
  return (
    <Field {...frame} wide>
      {(control) => (
        <textarea {...control} rows={rows} value={value} onInput={(e) => set(e.currentTarget.value)} spellcheck={false} placeholder={placeholder} />
      )}
    </Field>
  );
}

/** A field that is "yes" or empty. */
export function Tick({ value, set, ...frame }: FieldProps) {
  return <Field {...frame}>{(control) => <input {...control} type="checkbox" checked={value !== ''} onChange={(e) => set(e.currentTarget.checked ? 'yes' : '')} />}</Field>;
}

interface ChoiceProps extends FieldProps {
  options: readonly string[];
  /** The label of an option; default: its value. */
  show?: (option: string) => string;
  /** The field has no default option. */
  required?: boolean;
}

export function Choice({ value, set, options, show = (option) => option, required = false, ...frame }: ChoiceProps) {
  return (
    <Field {...frame}>
      {(control) => (
        <select {...control} value={value} onChange={(e) => set(e.currentTarget.value)}>
          {!required && <option value="">{t('register.default')}</option>}
          {options.map((option) => (
            <option key={option} value={option}>
              {show(option)}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
