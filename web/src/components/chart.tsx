import type uPlot from 'uplot';
import { useEffect, useRef, useState } from 'preact/hooks';
import 'uplot/dist/uPlot.min.css';
import { theme } from '../settings';

type ChartOptions = Omit<uPlot.Options, 'width' | 'height' | 'axes'> & { axes: uPlot.Axis[] };

interface Props {
  /** The text alternative. */
  label: string;
  height: number;
  /** Used once; only the data changes. */
  options: (library: typeof uPlot, colour: Colour) => ChartOptions;
  data: uPlot.AlignedData;
  /** The column under the pointer. */
  onPoint: (column: number | undefined, y: number) => void;
  onPick?: ((column: number) => void) | undefined;
}

/** A colour of the style sheet in the current theme. */
export type Colour = (name: string) => string;

/** A chart on a canvas. The first chart loads the library. */
export function Chart({ label, height, options, data, onPoint, onPick }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const probe = useRef<HTMLElement>(null);
  const calls = useRef({ onPoint, onPick });
  calls.current = { onPoint, onPick };
  const [chart, setChart] = useState<uPlot>();

  useEffect(() => {
    let made: uPlot | undefined;
    let gone = false;
    const colour: Colour = (name) => {
      if (!probe.current) return '';
      probe.current.style.color = `var(--${name})`;
      return getComputedStyle(probe.current).color;
    };
    const fit = new ResizeObserver(() => made?.setSize({ width: frame.current?.clientWidth ?? 0, height }));
    const repaint = () => made?.redraw(false);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    void import('uplot').then(({ default: library }) => {
      if (gone || !frame.current) return;
      made = new library(dressed(options(library, colour), frame.current.clientWidth, height, colour, calls), data, frame.current);
      fit.observe(frame.current);
      dark.addEventListener('change', repaint);
      setChart(made);
    });
    return () => {
      gone = true;
      fit.disconnect();
      dark.removeEventListener('change', repaint);
      made?.destroy();
    };
  }, []);
  useEffect(() => chart?.setData(data), [chart, data]);
  useEffect(() => chart?.redraw(false), [chart, theme.value]);
  return (
    <>
      <div class="chart" role="img" aria-label={label} ref={frame} style={{ height: `${height}px` }} />
      <i hidden ref={probe} />
    </>
  );
}

type Calls = { current: Pick<Props, 'onPoint' | 'onPick'> };

/** Adds the options that all charts share. */
function dressed(options: ChartOptions, width: number, height: number, colour: Colour, calls: Calls): uPlot.Options {
  const font = `12px ${getComputedStyle(document.documentElement).fontFamily}`;
  const axis: uPlot.Axis = {
    font,
    stroke: () => colour('muted'),
    grid: { stroke: () => colour('line'), width: 1 },
    ticks: { show: false },
  };
  return {
    ...options,
    width,
    height,
    legend: { show: false },
    padding: [8, 18, 0, 0],
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    axes: options.axes.map((one) => ({ ...axis, ...one })),
    hooks: {
      ...options.hooks,
      setCursor: [
        (chart) => {
          const { idx, left = -1, top = -1 } = chart.cursor;
          calls.current.onPoint(left < 0 || idx === null ? undefined : idx, chart.posToVal(top, 'y'));
        },
      ],
      ready: [
        (chart) =>
          chart.over.addEventListener('click', () => {
            if (typeof chart.cursor.idx === 'number') calls.current.onPick?.(chart.cursor.idx);
          }),
      ],
    },
  };
}
