/** The API keys: a list, and a form for new ones. */
import { useState } from 'preact/hooks';
import { api, caller, keyScopes, type ApiKey, type KeyDraft } from '../api';
import { Copy } from '../components/copy';
import { Dialog } from '../components/dialog';
import { Choice, Form, Group, Input, Moment, useForm, given } from '../components/form';
import { When } from '../components/marks';
import { Paged } from '../components/page';
import { refresh } from '../live';
import { t } from '../text';

export function KeysPage() {
  const [making, make] = useState(false);
  const [revoking, revoke] = useState<ApiKey>();
  const [token, show] = useState<string>();
  if (making) {
    return (
      <NewKey
        onClose={() => make(false)}
        onMade={(made) => {
          show(made);
          make(false);
          refresh();
        }}
      />
    );
  }
  return (
    <>
      <h1>{t('nav.keys')}</h1>
      <div class="actions end">
        <button onClick={() => make(true)}>{t('apikey.new')}</button>
      </div>
      {token && (
        <div class="card" role="status">
          <p>{t('apikey.made')}</p>
          <pre>{token}</pre>
          <Copy text={token} label={t('apikey.copy')} />
        </div>
      )}
      <Paged name="keys" load={api.keys} none={t('apikey.none')}>
        {(rows) => <List keys={rows} revoke={revoke} />}
      </Paged>
      {revoking && (
        <Dialog
          title={t('apikey.revokeOf', { key: revoking.name ?? revoking.id })}
          action={t('apikey.revoke')}
          grave
          run={() => api.revokeKey(revoking.id)}
          done="apikey.revoked"
          onClose={() => revoke(undefined)}
        >
          <p>{t('apikey.revokeExplain')}</p>
        </Dialog>
      )}
    </>
  );
}

function List({ keys, revoke }: { keys: ApiKey[]; revoke: (one: ApiKey) => void }) {
  return (
    <table>
      <thead>
        <tr>
          <th>{t('apikey.key')}</th>
          <th>{t('apikey.scope')}</th>
          <th>{t('nav.topics')}</th>
          <th>{t('apikey.rate')}</th>
          <th>{t('apikey.expires')}</th>
          <th>{t('endpoint.actions')}</th>
        </tr>
      </thead>
      <tbody>
        {keys.map((one) => (
          <tr key={one.id}>
            <td class="name">
              {one.name} <code class="mono muted">{one.id}</code>
            </td>
            <td data-label={t('apikey.scope')}>
              {one.scope && rights(one.scope)}
              {one.state !== 'active' && <span class="muted"> · {t(`apikey.${one.state}`)}</span>}
            </td>
            <td data-label={t('nav.topics')}>{one.topics?.join(', ') ?? t('apikey.allTopics')}</td>
            <td data-label={t('apikey.rate')} class={one.rate ? undefined : 'none'}>
              {one.rate ?? '–'}
            </td>
            <td data-label={t('apikey.expires')} class={one.expires_at ? undefined : 'none'}>
              {one.expires_at ? <When at={one.expires_at} /> : '–'}
            </td>
            <td>
              {one.source === 'settings' && <span class="muted">{t('apikey.settings')}</span>}
              {one.source === 'store' && one.id !== caller.value?.key && (
                <button class="grave" aria-label={`${t('apikey.revoke')}: ${one.name ?? one.id}`} onClick={() => revoke(one)}>
                  {t('apikey.revoke')}
                </button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

type Scope = (typeof keyScopes)[number];

/** The scope of a key as the API names it, and what it permits. */
const rights = (scope: Scope): string => `${scope}: ${t(`scope.${scope}`)}`;

const blank = { name: '', scope: 'write', topics: '', rate: '', expires_at: '' };

function NewKey({ onClose, onMade }: { onClose: () => void; onMade: (token: string) => void }) {
  const { draft, error, field, ask } = useForm(blank);
  const create = async () => {
    const { topics, expires_at, ...texts } = given(draft);
    const wanted: KeyDraft = { ...texts };
    if (topics) wanted.topics = topics.split(/[\s,]+/).filter(Boolean);
    if (expires_at) wanted.expires_at = new Date(expires_at).toISOString();
    onMade((await api.createKey(wanted)).token);
  };
  return (
    <Form title={t('apikey.new')} error={error} onSubmit={() => void ask(create)}>
      <Group title={t('apikey.key')} hint={t('apikey.explain')}>
        <Input {...field('name', '/name', t('setting.name'))} placeholder="billing" />
        <Choice {...field('scope', '/scope', t('apikey.scope'))} options={keyScopes} show={(one) => rights(one as Scope)} required />
        <Input {...field('topics', '/topics', t('nav.topics'))} placeholder="orders-*, payments" wide />
        <Input {...field('rate', '/rate', t('apikey.rate'))} placeholder="100/1s" />
        <Moment {...field('expires_at', '/expires_at', t('apikey.expires'))} />
      </Group>
      <div class="actions">
        <button class="primary">{t('apikey.create')}</button>
        <button type="button" onClick={onClose}>
          {t('action.back')}
        </button>
      </div>
    </Form>
  );
}
