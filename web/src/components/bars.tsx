import { count } from '../text';

interface Bar {
  label: string;
  n: number;
  /** Links to the counted jobs. */
  to?: string;
}

/** A column of numbers with bars relative to the largest. */
export function Bars({ bars }: { bars: Bar[] }) {
  const most = Math.max(1, ...bars.map(({ n }) => n));
  return (
    <dl class="bars">
      {bars.map(({ label, n, to }) => (
        <div key={label}>
          <dt>
            {to ? (
              <a href={to} data-page>
                {label}
              </a>
            ) : (
              label
            )}
          </dt>
          <dd>
            {n > 0 && <i style={{ width: `calc(${n / most} * (100% - 4.5em))` }} aria-hidden="true" />}
            {count(n)}
          </dd>
        </div>
      ))}
    </dl>
  );
}
