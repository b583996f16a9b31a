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

/** The upper bound of the bucket of a histogram that holds the given share, or nothing when it is empty. */
export function quantile(text: string, metric: string, share: number): number | undefined {
  const below = new Map<number, number>();
  for (const { labels, value } of samples(text, `${metric}_bucket`)) {
    const bound = labels['le'] === '+Inf' ? Infinity : Number(labels['le']);
    below.set(bound, (below.get(bound) ?? 0) + value);
  }
  const all = below.get(Infinity) ?? 0;
  if (all === 0) return undefined;
  return [...below].sort(([a], [b]) => a - b).find(([, n]) => n >= share * all)?.[0];
}
