import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { caller, devClock, key, keyWanted, mayAdmin, mayChange, restricted, setKey } from '../api';
import { place } from '../router';
import { language, languages, theme, themes, type Language, type Theme } from '../settings';
import { t, type Key } from '../text';
import { DevBar } from './dev-bar';
import { Icon, type IconName } from './icon';
import { Live } from './live-mark';
import { Notices } from './notices';

const pages: [string, Key, IconName][] = [
  ['/', 'nav.overview', 'overview'],
  ['/jobs', 'nav.jobs', 'jobs'],
  ['/schedules', 'nav.schedules', 'schedules'],
  ['/groups', 'nav.groups', 'groups'],
  ['/topics', 'nav.topics', 'topics'],
  ['/endpoints', 'nav.endpoints', 'endpoints'],
  ['/dead', 'nav.dead', 'dead'],
  ['/alerts', 'nav.alerts', 'alerts'],
  ['/operations', 'nav.operations', 'operations'],
  ['/inboxes', 'nav.inboxes', 'inboxes'],
  ['/nodes', 'nav.nodes', 'nodes'],
  ['/keys', 'nav.keys', 'keys'],
  ['/sinks', 'nav.sinks', 'sinks'],
];

/** The documents, as they are read on GitHub. */
const documents = 'https://github.com/duehook/duehook/blob/main/docs/README.md';

/** Pages of `duehook dev` only. */
const ofDev = ['/sinks'];

/** Pages that concern all topics. Keys that are restricted to some do not see them. */
const ofAll = ['/', '/groups', '/endpoints', '/alerts', '/inboxes', '/nodes', '/keys'];

export function Shell({ children }: { children: ComponentChildren }) {
  const { path, query } = place.value;
  const [open, setOpen] = useState('');
  const here = path + query.toString();
  return (
    <div class="shell">
      <a class="skip" href="#main">
        {t('nav.skip')}
      </a>
      <header class="side">
        <div class="brand">
          <a href="/" data-page>
            <img src="/favicon.svg" alt="" width="26" height="26" />
            duehook
          </a>
          <button class="menu" aria-expanded={open === here} aria-controls="menu" onClick={() => setOpen(open === here ? '' : here)}>
            <Icon name="menu" />
            <span class="hidden">{t('nav.menu')}</span>
          </button>
        </div>
        <div id="menu" class={open === here ? 'open' : undefined}>
          <nav aria-label={t('nav.main')}>
            {pages
              .filter(([to]) => (!restricted.value || !ofAll.includes(to)) && (devClock.value || !ofDev.includes(to)))
              .filter(([to]) => to !== '/keys' || (mayAdmin.value && caller.value?.key))
              .map(([to, label, icon]) => (
              <a key={to} href={to} data-page aria-current={isHere(path, to) ? 'page' : undefined}>
                <Icon name={icon} />
                {t(label)}
              </a>
              ))}
          </nav>
          {mayChange.value && (
            <a class="button primary" href="/register" data-page>
              {t('register.title')}
            </a>
          )}
          <a class="reference" href="/docs">
            {t('nav.reference')}
          </a>
          <a class="reference" href={documents} target="_blank" rel="noreferrer">
            {t('nav.documents')}
          </a>
          <Preferences />
        </div>
      </header>
      <div>
        <DevBar />
        <div class="content">
          {!keyWanted.value && <Live />}
          {children}
          <Notices />
        </div>
      </div>
    </div>
  );
}

const isHere = (path: string, to: string): boolean => path === to || (to !== '/' && path.startsWith(`${to}/`));

function Preferences() {
  return (
    <div class="preferences">
      <label>
        <span>{t('theme.label')}</span>
        <select value={theme.value} onChange={(e) => (theme.value = e.currentTarget.value as Theme)}>
          {themes.map((one) => (
            <option key={one} value={one}>
              {t(`theme.${one}`)}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span>{t('language.label')}</span>
        <select value={language.value} onChange={(e) => (language.value = e.currentTarget.value as Language)}>
          {Object.entries(languages).map(([code, name]) => (
            <option key={code} value={code} lang={code}>
              {name}
            </option>
          ))}
        </select>
      </label>
      {key.value && (
        <div class="caller">
          {caller.value?.key && (
            <span>
              {caller.value.key_name ?? caller.value.key} · {t(`scope.${caller.value.scope}`)}
              {caller.value.topics && ` · ${caller.value.topics.join(', ')}`}
            </span>
          )}
          <button class="quiet" onClick={() => setKey('')}>
            {t('key.forget')}
          </button>
        </div>
      )}
    </div>
  );
}
