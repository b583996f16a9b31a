/** Reads the figures that the pages need from the text format of Prometheus. */

interface Sample {
  labels: Record<string, string>;
  value: number;
}

/** The samples of one metric. */
export function samples(text: string, metric: string): Sample[] {
  const found: Sample[] = [];
  for (const line of text.split('\n')) {
    const [, name, labels, value] = /^(\w+)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
    if (name !== metric) continue;
    const pairs = [...(labels ?? '').matchAll(/(\w+)="([^"]*)"/g)];
    found.push({ labels: Object.fromEntries(pairs.map(([, key, text]) => [key, text])), value: Number(value) });
  }
  return found;
}

/** The sum of a metric's samples whose labels are as given. */
export function total(text: string, metric: string, labels: Record<string, string> = {}): number {
  return samples(text, metric)
    .filter((sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value))
    .reduce((sum, sample) => sum + sample.value, 0);
}

/** How many samples of a histogram are at most each bound, over all its labels. */
function cumulative(text: string, metric: string): [number, number][] {
  const below = new Map<number, number>();
  for (const { labels, value } of samples(text, `${metric}_bucket`)) {
    const bound = labels['le'] === '+Inf' ? Infinity : Number(labels['le']);
    below.set(bound, (below.get(bound) ?? 0) + value);
  }
  return [...below].sort(([a], [b]) => a - b);
}

/** The upper bound of the bucket of a histogram that holds the given share, or nothing when it is empty. */
export function quantile(text: string, metric: string, share: number): number | undefined {
  const buckets = cumulative(text, metric);
  const all = buckets.at(-1)?.[1] ?? 0;
  return all === 0 ? undefined : buckets.find(([, n]) => n >= share * all)?.[0];
}

/** How many samples of a histogram lie between each of these bounds, which are among its own, and the one before. */
export function between(text: string, metric: string, bounds: number[]): number[] {
  const below = new Map(cumulative(text, metric));
  return bounds.map((bound, i) => (below.get(bound) ?? 0) - (below.get(bounds[i - 1] ?? -1) ?? 0));
}
