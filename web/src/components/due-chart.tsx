import type uPlot from 'uplot';
import { useMemo, useState } from 'preact/hooks';
import { address, type Query } from '../address';
import type { Overview } from '../api';
import { navigate } from '../router';
import { count, hour, t } from '../text';
import { Chart } from './chart';

const stepsPerHour = 4;

/** The unfinished jobs that are due in a span of time. */
const dueIn = (fromMs: number, toMs: number): Query => [
  ...(['waiting', 'retrying'] as const).map((state) => ['state', state] as const),
  ['due_from', new Date(fromMs).toISOString()],
  ['due_to', new Date(toMs).toISOString()],
];

/** The top of the scale. A few columns far above the others are cut off, so that the others can be told apart. */
export function ceiling(counts: readonly number[]): number {
  const some = counts.filter((n) => n > 0).toSorted((a, b) => a - b);
  const most = some.at(-1) ?? 0;
  const usual = 1.5 * (some[Math.floor(0.9 * (some.length - 1))] ?? 0);
  return most > 4 * usual ? usual : most;
}

/** Writes the counts of cut columns at their tops. */
function labelCut(chart: uPlot, counts: readonly number[], ink: string): void {
  const top = chart.scales['y']?.max ?? 0;
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.font = `${12 * devicePixelRatio}px ${getComputedStyle(document.documentElement).fontFamily}`;
  ctx.fillStyle = ink;
  ctx.textBaseline = 'top';
  ctx.textAlign = 'left';
  let free = bbox.left; // of the line, from here on
  counts.forEach((n, step) => {
    if (n <= top) return;
    const text = count(n);
    const { width } = ctx.measureText(text);
    const gap = 4 * devicePixelRatio;
    const beside = chart.valToPos(chart.data[0][step + 1] ?? Number.NaN, 'x', true) + gap;
    const at = beside + width <= bbox.left + bbox.width ? beside : chart.valToPos(chart.data[0][step] ?? 0, 'x', true) - gap - width;
    if (at < free) return; // the table has it
    ctx.fillText(text, at, bbox.top);
    free = at + width + gap;
  });
  ctx.restore();
}

/** Draws each column from its time to the right. */
function bars({ paths }: typeof uPlot): Pick<uPlot.Series, 'paths'> {
  const built = paths.bars?.({ size: [0.82, 40], align: 1, radius: 0.15 });
  return built ? { paths: built } : {};
}

/** Jobs due in the next 24 hours by quarter hour. Each column links to its jobs. */
export function DueChart({ due }: { due: Overview['due'] }) {
  const [pointed, point] = useState<number>();
  const from = Date.parse(due.from);
  const start = (step: number) => from + step * due.step_ms;
  const data = useMemo(
    () => [due.counts.map((_, step) => start(step) / 1000), due.counts] as [number[], number[]],
    [due],
  );
  const span = (first: number, steps: number) => `${hour(start(first))} – ${hour(start(first + steps))}`;
  const hours = Array.from({ length: due.counts.length / stepsPerHour }, (_, i) => i * stepsPerHour);
  const total = due.counts.reduce((sum, n) => sum + n, 0);
  const summary = due.later > 0 ? t('due.total', { n: count(total), later: count(due.later) }) : t('due.totalOnly', { n: count(total) });
  return (
    <>
      {due.partial_from && <p class="muted">{t('due.partial', { at: hour(Date.parse(due.partial_from)) })}</p>}
      <p class="readout" aria-hidden="true">
        {pointed === undefined
          ? summary
          : t('due.column', { span: span(pointed, 1), n: count(due.counts[pointed] ?? 0) })}
      </p>
      <Chart
        label={summary}
        height={210}
        data={data}
        onPoint={point}
        onPick={(step) => navigate(address(['jobs'], dueIn(start(step), start(step + 1))))}
        options={(library, colour) => ({
          scales: { x: { range: (chart) => [chart.data[0][0] ?? 0, (chart.data[0].at(-1) ?? 0) + due.step_ms / 1000] }, y: { range: (chart) => [0, Math.max(ceiling(chart.data[1] as number[]), 4) * 1.05] } },
          hooks: { draw: [(chart) => labelCut(chart, chart.data[1] as number[], colour('text'))] },
          series: [
            {},
            {
              fill: () => colour('accent'),
              stroke: () => colour('accent'),
              width: 0,
              points: { show: false },
              ...bars(library),
            },
          ],
          axes: [
            { size: 30, values: (_, splits) => splits.map((at) => hour(at * 1000)) },
            { size: 46, values: (_, splits) => splits.map((n) => (Number.isInteger(n) ? count(n) : '')) },
          ],
        })}
      />
      {ceiling(due.counts) < Math.max(...due.counts) && <p class="muted">{t('due.cut')}</p>}
      <details>
        <summary>{t('chart.table')}</summary>
        <ul class="hours">
          {hours.map((step) => (
            <li key={step}>
              <a href={address(['jobs'], dueIn(start(step), start(step + stepsPerHour)))} data-page>
                {span(step, stepsPerHour)}
              </a>
              <span>{count(due.counts.slice(step, step + stepsPerHour).reduce((sum, n) => sum + n, 0))}</span>
            </li>
          ))}
        </ul>
      </details>
    </>
  );
}
