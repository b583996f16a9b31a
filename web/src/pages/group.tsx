import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, mayChange, type Group, type Member } from '../api';
import { Dialog } from '../components/dialog';
import { Empty, Loading, More, mostRows, Target } from '../components/marks';
import { notify, notifyError } from '../components/notices';
import { ProblemNote } from '../components/problem';
import { useResource } from '../live';
import { navigate } from '../router';
import { count, t } from '../text';

export function GroupPage({ name }: { name: string }) {
  const group = useResource(address(['groups', name]), (abort) => api.group(name, abort));
  return (
    <>
      <p class="crumb">
        <a href="/groups" data-page>
          {t('nav.groups')}
        </a>
      </p>
      <h1>{name}</h1>
      {group.error && <ProblemNote error={group.error} />}
      {group.data ? <Details group={group.data} /> : !group.error && <Loading />}
    </>
  );
}

function Details({ group: { name: group, members } }: { group: Group }) {
  const [find, setFind] = useState('');
  const found = members.filter(({ name, url, filter_label: label }) => [name, url, label ?? ''].some((text) => text.includes(find.trim())));
  return (
    <>
      <div class="toolbar">
        <input type="search" class="find" aria-label={t('group.find')} placeholder={t('group.find')} value={find} onInput={(e) => setFind(e.currentTarget.value)} />
        <Actions name={group} />
      </div>
      <section>
        <h2>{t('group.countOf', { n: count(members.length) })}</h2>
        {found.length > 0 ? <Members members={found.slice(0, mostRows)} /> : <Empty text={t(members.length > 0 ? 'group.noMatch' : 'group.empty')} />}
        <More of={found.length} />
      </section>
    </>
  );
}

function Members({ members }: { members: Member[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th>{t('group.member')}</th>
          <th>{t('register.url')}</th>
          <th>{t('group.filter_label')}</th>
          <th>{t('topic.headers')}</th>
        </tr>
      </thead>
      <tbody>
        {members.map((member) => (
          <tr key={member.name}>
            <td class="name">{member.name}</td>
            <td data-label={t('register.url')}>
              <Target url={member.url} whole />
            </td>
            <td class="label" data-label={t('group.filter_label')}>{member.filter_label ?? <span class="muted">–</span>}</td>
            <td data-label={t('topic.headers')}>{Object.keys(member.headers ?? {}).join(', ') || <span class="muted">–</span>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Actions({ name }: { name: string }) {
  const [asking, ask] = useState(false);
  const remove = async () => {
    try {
      await api.deleteGroup(name);
      notify(t('group.deleted'));
      navigate('/groups');
    } catch (error) {
      notifyError(error);
    }
  };
  return (
    <div class="actions">
      {mayChange.value && (
        <a class="button" href={address(['register'], [['group', name]])} data-page>
          {t('group.register')}
        </a>
      )}
      {mayChange.value && (
        <>
          <a class="button" href={address(['groups', name, 'edit'])} data-page>
            {t('action.edit')}
          </a>
          <button class="grave" onClick={() => ask(true)}>
            {t('action.delete')}
          </button>
        </>
      )}
      {asking && (
        <Dialog title={t('group.deleteOf', { group: name })} action={t('action.delete')} grave onSubmit={() => void remove()} onClose={() => ask(false)}>
          <p>{t('group.deleteExplain')}</p>
        </Dialog>
      )}
    </div>
  );
}
