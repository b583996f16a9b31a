import type uPlot from 'uplot';
import { useMemo, useState } from 'preact/hooks';
import type { Overview } from '../api';
import { count, hour, span, t } from '../text';
import { Chart, type Colour } from './chart';

type Recent = Overview['recent'];

/** Limits in ms for "late" and "very late". */
const lateMs = 1000;
const tooLateMs = 30_000;

/** Lateness of attempts by minute: more attempts, stronger colour. */
export function Heatmap({ recent }: { recent: Recent }) {
  const [pointed, point] = useState<[number, number]>();
  const { bounds_ms: bounds, counts } = recent.lateness;
  const from = Date.parse(recent.from);
  const at = (minute: number) => from + minute * recent.step_ms;
  const data = useMemo(() => columns(recent), [recent]);
  const about = summary(recent);
  const [minute, row] = pointed ?? [];
  return (
    <>
      <p class="readout" aria-hidden="true">
        {minute === undefined || row === undefined || counts[minute]?.[row] === undefined
          ? about
          : t('heat.cell', { at: hour(at(minute)), late: range(bounds, row), n: count(counts[minute][row]) })}
      </p>
      <Chart
        label={about}
        height={250}
        data={data}
        onPoint={(column, y) => point(column === undefined ? undefined : [column, Math.floor(y)])}
        options={(_, colour) => ({
          scales: { x: { range: (chart) => [chart.data[0][0] ?? 0, (chart.data[0].at(-1) ?? 0) + recent.step_ms / 1000] }, y: { range: [0, bounds.length + 1] } },
          series: data.map(() => ({ paths: () => null, points: { show: false } })),
          axes: [
            { size: 30, values: (_chart, splits) => splits.map((seconds) => hour(seconds * 1000)), grid: { show: false } },
            {
              size: 58,
              splits: () => bounds.map((_bound, i) => i + 1).filter((i) => i % 2 === 0),
              values: (_chart, splits) => splits.map((i) => span(bounds[i - 1] ?? 0)),
            },
          ],
          hooks: { draw: [(chart) => paint(chart, bounds, colour)] },
        })}
      />
      <details>
        <summary>{t('chart.table')}</summary>
        <ul class="hours">
          {[...bounds, Infinity].map((bound, i) => (
            <li key={bound}>
              <span class="muted">{range(bounds, i)}</span>
              <span>{count(counts.reduce((sum, minute) => sum + (minute[i] ?? 0), 0))}</span>
            </li>
          ))}
        </ul>
      </details>
    </>
  );
}

/** One series over the minutes for each bound. */
function columns({ from, step_ms: step, lateness: { bounds_ms: bounds, counts } }: Recent): uPlot.AlignedData {
  const times = counts.map((_, minute) => (Date.parse(from) + minute * step) / 1000);
  return [times, ...[...bounds, Infinity].map((_, i) => counts.map((minute) => minute[i] ?? 0))];
}

const range = (bounds: number[], i: number): string => {
  const bound = bounds[i];
  return bound === undefined ? `> ${span(bounds.at(-1) ?? 0)}` : `≤ ${span(bound)}`;
};

function summary({ delivered, failed }: Recent): string {
  const sum = (counts: number[]) => counts.reduce((all, n) => all + n, 0);
  return t('heat.total', { delivered: count(sum(delivered)), failed: count(sum(failed)) });
}

function paint(chart: uPlot, bounds: number[], colour: Colour): void {
  const { ctx } = chart;
  const [times, ...rows] = chart.data as [number[], ...number[][]];
  const most = Math.max(1, ...rows.flat());
  const width = chart.bbox.width / times.length;
  const height = chart.bbox.height / rows.length;
  const gap = devicePixelRatio;
  rows.forEach((row, i) => {
    const bound = bounds[i] ?? Infinity;
    ctx.fillStyle = colour(bound <= lateMs ? 'accent' : bound <= tooLateMs ? 'warn' : 'bad');
    row.forEach((n, minute) => {
      if (!n) return;
      ctx.globalAlpha = 0.25 + (0.75 * Math.log1p(n)) / Math.log1p(most);
      ctx.fillRect(chart.bbox.left + minute * width, chart.bbox.top + (rows.length - 1 - i) * height, width - gap, height - gap);
    });
  });
  ctx.globalAlpha = 1;
}
