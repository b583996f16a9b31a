/** The viewer's choices, kept in this browser. */
import { effect, signal } from '@preact/signals';

export const themes = ['auto', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

export const languages = { en: 'English', zh: '中文' } as const;
export type Language = keyof typeof languages;

const oneOf = <T extends string>(all: readonly T[], value: string | null, otherwise: T): T => all.find((one) => one === value) ?? otherwise;

const spoken: Language = navigator.language.startsWith('zh') ? 'zh' : 'en';

export const theme = signal(oneOf(themes, localStorage.getItem('duehook.theme'), 'auto'));
export const language = signal(oneOf(Object.keys(languages) as Language[], localStorage.getItem('duehook.language'), spoken));

export function start(): void {
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value;
    localStorage.setItem('duehook.theme', theme.value);
  });
  effect(() => {
    document.documentElement.lang = language.value === 'zh' ? 'zh-CN' : 'en';
    localStorage.setItem('duehook.language', language.value);
  });
}
