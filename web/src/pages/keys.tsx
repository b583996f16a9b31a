/** The API keys: a list, and a form for new ones. */
import { useState } from 'preact/hooks';
import { api, caller, keyScopes, type ApiKey, type KeyDraft } from '../api';
import { Copy } from '../components/copy';
import { Dialog } from '../components/dialog';
import { Choice, Form, Group, Input, Moment, useForm, given } from '../components/form';
import { Empty, More, mostRows, When } from '../components/marks';
import { notify, notifyError } from '../components/notices';
import { ProblemNote } from '../components/problem';
import { refresh, useResource } from '../live';
import { t } from '../text';

export function KeysPage() {
  const keys = useResource('keys', api.keys);
  const [making, make] = useState(false);
  const [revoking, revoke] = useState<ApiKey>();
  const [token, show] = useState<string>();
  const all = keys.data ?? [];
  const remove = async (id: string) => {
    try {
      await api.revokeKey(id);
      notify(t('apikey.revoked'));
    } catch (error) {
      notifyError(error);
    }
    refresh();
  };
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
      <div class="actions">
        <button onClick={() => make(true)}>{t('apikey.new')}</button>
      </div>
      {token && (
        <div class="card" role="status">
          <p>{t('apikey.made')}</p>
          <pre>{token}</pre>
          <Copy text={token} label={t('apikey.copy')} />
        </div>
      )}
      {keys.error && <ProblemNote error={keys.error} />}
      {keys.data && all.length === 0 && <Empty text={t('apikey.none')} />}
      {all.length > 0 && <List keys={all.slice(0, mostRows)} revoke={revoke} />}
      <More of={all.length} />
      {revoking && (
        <Dialog
          title={t('apikey.revokeOf', { key: revoking.name ?? revoking.id })}
          action={t('apikey.revoke')}
          grave
          onSubmit={() => void remove(revoking.id)}
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
          <th>{t('apikey.revoke')}</th>
        </tr>
      </thead>
      <tbody>
        {keys.map((one) => (
          <tr key={one.id}>
            <td class="name">
              {one.name} <code class="mono muted">{one.id}</code>
            </td>
            <td data-label={t('apikey.scope')}>
              {one.scope}
              {one.state !== 'active' && <span class="muted"> · {t(`apikey.${one.state}`)}</span>}
            </td>
            <td data-label={t('nav.topics')}>{one.topics?.join(', ') ?? t('apikey.allTopics')}</td>
            <td data-label={t('apikey.rate')}>{one.rate ?? '–'}</td>
            <td data-label={t('apikey.expires')}>{one.expires_at ? <When at={one.expires_at} /> : '–'}</td>
            <td data-label={t('apikey.revoke')}>
              {one.source === 'settings' && <span class="muted">{t('apikey.settings')}</span>}
              {one.source === 'store' && one.id !== caller.value?.key && (
                <button class="quiet" aria-label={`${t('apikey.revoke')}: ${one.name ?? one.id}`} onClick={() => revoke(one)}>
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
        <Choice {...field('scope', '/scope', t('apikey.scope'))} options={keyScopes} show={(one) => `${one}: ${t(`scope.${one as (typeof keyScopes)[number]}`)}`} required />
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
