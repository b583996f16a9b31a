import type { ApiError } from '../api';
import { t } from '../text';

/** What went wrong, in one line. The API's own words are English. */
export function describe({ problem }: ApiError): string {
  if (problem.code === 'unreachable') return t('problem.unreachable', { detail: problem.detail });
  if (problem.code === 'forbidden') return `${t('problem.forbidden')} ${problem.detail}`;
  if (problem.errors.length > 0) return problem.errors.map(({ pointer, message }) => `${pointer.slice(1)} ${message}`).join('; ');
  return `${problem.title}. ${problem.detail}`;
}

export function ProblemNote({ error }: { error: ApiError }) {
  return (
    <p class="problem" role="alert">
      {describe(error)}
    </p>
  );
}
