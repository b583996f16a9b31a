/** Texts, numbers and times in the viewer's language. */
import { effect, signal } from '@preact/signals';
import { serverNow, type Sentence } from './api';
import en from './i18n/en.json';
import { language, type Language } from './settings';

export type Key = keyof typeof en;

type Table = Record<Key, string>;

/** English is built in. Other languages load when chosen. */
const tables = signal<Partial<Record<Language, Table>>>({ en });

const others: Partial<Record<Language, () => Promise<{ default: Table }>>> = { zh: () => import('./i18n/zh.json') };

async function learn(chosen: Language): Promise<void> {
  try {
    const table = await others[chosen]?.();
    if (table) tables.value = { ...tables.value, [chosen]: table.default };
  } catch {
    // The server is unreachable. The pages will show it, in English.
  }
}

/** Loads the chosen language, and follows changes. */
export async function start(): Promise<void> {
  await learn(language.value);
  effect(() => void learn(language.value));
}

/** The text of a key, with each {name} replaced by its parameter. */
export function t(key: Key, given: Record<string, string | number> = {}): string {
  return (tables.value[language.value] ?? en)[key].replace(/\{(\w+)\}/g, (whole, name: string) => String(given[name] ?? whole));
}

/** The text for a word of the API, or the word itself if there is none. */
export function word(kind: 'reason' | 'error' | 'why' | 'problem' | 'outcome', value: string): string {
  if (kind === 'error' && value.startsWith('http_')) return value.replace('http_', 'HTTP ');
  const key = `${kind}.${value}`;
  return key in en ? t(key as Key) : value;
}

/** A sentence of the API in the viewer's language, or undefined if unknown. */
function sentence({ code, params }: Sentence): string | undefined {
  const key = `says.${code}`;
  const one = `${key}.one`;
  const chosen = params['count'] === 1 && one in en ? one : key;
  if (!(chosen in en)) return undefined;
  return t(chosen as Key, Object.fromEntries(Object.entries(params).map(([name, value]) => [name, parameter(name, value)])));
}

function parameter(name: string, value: string | number): string {
  if (typeof value === 'number') return count(value);
  if (name === 'at' || name === 'since') return clock(Date.parse(value));
  if (name === 'outcome') return word('error', value);
  const state = `state.${value}`;
  return name === 'state' && state in en ? t(state as Key) : value;
}

/** Sentences as one text, or undefined if one of them is unknown. */
export function said(sentences: Sentence[]): string | undefined {
  const all = sentences.map(sentence);
  return all.includes(undefined) ? undefined : all.join(language.value === 'zh' ? '' : ' ');
}

const locale = (): string => (language.value === 'zh' ? 'zh-CN' : 'en-GB');

export const count = (n: number): string => new Intl.NumberFormat(locale()).format(n);

export const percent = (share: number): string =>
  new Intl.NumberFormat(locale(), { style: 'percent', maximumFractionDigits: share > 0.99 && share < 1 ? 2 : 1 }).format(share);

const units: [string, number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
];

/** The unit names; empty is ms. */
const unitNames: Record<Language, Record<string, string>> = {
  en: { d: 'd', h: 'h', m: 'm', s: 's', '': 'ms' },
  zh: { d: '天', h: '小时', m: '分', s: '秒', '': 'ms' },
};

/** A duration in its two largest units, such as 4m 12s; below a second in ms. */
export function span(ms: number): string {
  const named = unitNames[language.value];
  if (ms < 1000) return `${Math.round(ms)}${named['']}`;
  const first = units.findIndex(([, size]) => ms >= size);
  const [name, size] = units[first] ?? ['s', 1000];
  const next = units[first + 1];
  const rest = next ? Math.floor((ms % size) / next[1]) : 0;
  return `${Math.floor(ms / size)}${named[name]}${next && rest ? ` ${rest}${named[next[0]]}` : ''}`;
}

/** The ms of a duration such as 1d12h or 30m, or undefined if it is none. */
export function spanMs(text: string): number | undefined {
  const found = [...text.matchAll(/(\d+)([dhms])/g)];
  if (found.map(([whole]) => whole).join('') !== text || !text) return undefined;
  return found.reduce((sum, [, n, unit]) => sum + Number(n) * (units.find(([name]) => name === unit)?.[1] ?? 0), 0);
}

/** A time relative to now, in words. */
export function relative(ms: number, nowMs: number): string {
  const away = ms - nowMs;
  if (Math.abs(away) < 1000) return t('time.now');
  return away > 0 ? t('time.in', { span: span(away) }) : t('time.ago', { span: span(-away) });
}

/** A time in the viewer's zone; with the date unless it is today, and with the year unless it is this one. */
export function clock(ms: number): string {
  const at = new Date(ms);
  const today = new Date(serverNow());
  const time: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', second: '2-digit' };
  const date: Intl.DateTimeFormatOptions = { day: 'numeric', month: 'short', ...(at.getFullYear() !== today.getFullYear() && { year: 'numeric' }) };
  return new Intl.DateTimeFormat(locale(), at.toDateString() === today.toDateString() ? time : { ...time, ...date }).format(at);
}

/** A text of the API with its times in the viewer's zone. */
export const localTimes = (text: string): string =>
  text.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (iso) => clock(Date.parse(iso)));

/** An hour of the viewer's day. */
export const hour = (ms: number): string =>
  new Intl.DateTimeFormat(locale(), { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }).format(ms);

/** The weekday of a local time of any zone. */
export const weekday = (local: string): string =>
  new Intl.DateTimeFormat(locale(), { weekday: 'short', timeZone: 'UTC' }).format(Date.parse(`${local.slice(0, 10)}T00:00:00Z`));

/** A full time. */
export const exact = (iso: string): string =>
  new Intl.DateTimeFormat(locale(), { dateStyle: 'full', timeStyle: 'long' }).format(new Date(iso));

/** The endpoint of jobs that consumers fetch. */
export const pullQueue = 'pull:';

/** Scheme, host and port of a URL. */
export function endpointOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url;
}
