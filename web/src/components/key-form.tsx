import { useState } from 'preact/hooks';
import { setKey, type ApiError } from '../api';
import { t } from '../text';

/** The form for the API key, which stays in this tab. */
export function KeyForm({ why }: { why: ApiError }) {
  const [value, setValue] = useState('');
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    setKey(value.trim());
  };
  return (
    <form class="card narrow" onSubmit={submit}>
      <h1>{t('key.title')}</h1>
      <p>{t('key.explain')}</p>
      <p class="muted">{why.problem.detail}</p>
      <label class="field">
        <span>{t('key.label')}</span>
        <input
          type="password"
          required
          autocomplete="off"
          spellcheck={false}
          placeholder="dh_…"
          value={value}
          onInput={(e) => setValue(e.currentTarget.value)}
        />
      </label>
      <button class="primary">{t('key.use')}</button>
    </form>
  );
}
