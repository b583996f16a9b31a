import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, type Signing as Signs } from '../api';
import { useResource } from '../live';
import { t } from '../text';
import { Copy } from './copy';
import { Dialog } from './dialog';
import { Input } from './form';
import { When } from './marks';
import { ProblemNote } from './problem';

/** The secrets that sign a topic's deliveries. The form sets them but never shows them. */
export function Signing({ topic }: { topic: string }) {
  const signing = useResource(address(['signing', topic]), (abort) => api.signing(topic, abort));
  const [asking, ask] = useState<'set' | 'delete'>();
  const [made, setMade] = useState<string>();
  if (signing.error) return <ProblemNote error={signing.error} />;
  if (!signing.data) return null;
  const { source, secrets } = signing.data;
  const remove = async () => {
    await api.deleteSecret(topic);
    setMade(undefined);
  };
  return (
    <section class="card signing">
      <h2>{t('signing.title')}</h2>
      <p class="muted">{t(source === 'topic' ? 'signing.own' : 'signing.default')}</p>
      <ul>
        {secrets.map(({ id, created_at, ends_at }) => (
          <li key={id}>
            <code class="mono">{id}</code>{' '}
            <span class="muted">
              {created_at && (
                <>
                  {t('signing.since')} <When at={created_at} />
                </>
              )}
              {ends_at && (
                <>
                  {' · '}
                  {t('signing.ends')} <When at={ends_at} />
                </>
              )}
            </span>
          </li>
        ))}
      </ul>
      {made && (
        <div role="status">
          <p>{t('signing.made')}</p>
          <pre>{made}</pre>
          <Copy text={made} label={t('signing.copy')} />
        </div>
      )}
      <div class="actions">
        <button onClick={() => ask('set')}>{t('signing.set')}</button>
        {source === 'topic' && (
          <button class="grave" onClick={() => ask('delete')}>
            {t('signing.delete')}
          </button>
        )}
      </div>
      {asking === 'set' && (
        <SetSecret topic={topic} onClose={() => ask(undefined)} onSet={({ secret }, given) => setMade(given ? undefined : secret)} />
      )}
      {asking === 'delete' && (
        <Dialog title={t('signing.delete')} action={t('signing.delete')} grave run={remove} done="signing.deleted" onClose={() => ask(undefined)}>
          <p>{t('signing.deleteExplain')}</p>
        </Dialog>
      )}
    </section>
  );
}

interface SetProps {
  topic: string;
  onSet: (signing: Signs, given: boolean) => void;
  onClose: () => void;
}

function SetSecret({ topic, onSet, onClose }: SetProps) {
  const [secret, setSecret] = useState('');
  const [overlap, setOverlap] = useState('1d');
  const submit = async () => onSet(await api.rotateSecret(topic, { ...(secret ? { secret } : {}), overlap }), secret !== '');
  return (
    <Dialog title={t('signing.set')} action={t('signing.set')} run={submit} done="signing.done" onClose={onClose}>
      <Input label={t('signing.secret')} secret placeholder={t('signing.makeOne')} value={secret} set={setSecret} />
      <Input label={t('signing.overlap')} required value={overlap} set={setOverlap} />
    </Dialog>
  );
}
