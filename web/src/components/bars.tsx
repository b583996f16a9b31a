import { count } from '../text';

/** Numbers beside each other, with bars by their share of the largest. */
export function Bars({ bars }: { bars: { label: string; n: number }[] }) {
  const most = Math.max(1, ...bars.map(({ n }) => n));
  return (
    <dl class="bars">
      {bars.map(({ label, n }) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>
            <i style={{ width: `${(100 * n) / most}%` }} aria-hidden="true" />
            {count(n)}
          </dd>
        </div>
      ))}
    </dl>
  );
}
