import type { JSX } from 'preact';

/** Icons on a 16 by 16 grid, in the colour of the text. */
const shapes = {
  overview: 'M2 9h3l2-6 3 10 2-4h2',
  jobs: 'M5 4h9M5 8h9M5 12h9M2 4h.01M2 8h.01M2 12h.01',
  schedules: 'M2.5 4h11v9.5h-11zM2.5 7h11M5.5 2v3M10.5 2v3M8 9v2.5h2',
  groups: 'M2 8h4M6 8l4-5h4M6 8h8M6 8l4 5h4',
  topics: 'M2 5l6-3 6 3-6 3zM2 8l6 3 6-3M2 11l6 3 6-3',
  endpoints: 'M3 8a5 5 0 0 1 10 0M5.5 8a2.5 2.5 0 0 1 5 0M8 8v6M5.5 14h5',
  dead: 'M2 4h12v3H2zM3 7v6h10V7M6.5 10h3',
  alerts: 'M8 2a4 4 0 0 0-4 4v3l-1.5 2.5h11L12 9V6a4 4 0 0 0-4-4M6.5 13.5a1.5 1.5 0 0 0 3 0',
  operations: 'M8 2v3M8 11v3M2 8h3M11 8h3M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6',
  inboxes: 'M2.5 9h3l1 2h3l1-2h3v4.5h-11zM2.5 9l2-6h7l2 6M8 4.5v3',
  nodes: 'M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01',
  sinks: 'M2 6h12l-2 7.5H4zM8 2v4M6 4l2 2 2-2',
  keys: 'M10.5 2a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7M8 8l-6 6M2 14h3v-2.5',
  menu: 'M2 4h12M2 8h12M2 12h12',
  pause: 'M5 3v10M11 3v10',
  play: 'M5 3l8 5-8 5z',
  copy: 'M6 6h8v8H6zM4 10H2V2h8v2',
  search: 'M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.5 10.5l3.5 3.5',
} as const;

export type IconName = keyof typeof shapes;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={shapes[name]} />
    </svg>
  );
}
