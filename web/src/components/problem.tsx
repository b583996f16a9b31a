import type { ApiError } from '../api';
import { t, word } from '../text';

/** The error in one line. Falls back to the API's English text for an unknown code. */
export function describe({ problem }: ApiError): string {
  if (problem.code === 'unreachable') return t('problem.unreachable', { detail: problem.detail });
  if (problem.code === 'forbidden') return `${t('problem.forbidden')} ${problem.detail}`;
  if (problem.errors.length > 0) return problem.errors.map(({ pointer, message }) => `${pointer.slice(1)} ${message}`).join('; ');
  const told = word('problem', problem.code);
  return told === problem.code ? `${problem.title}. ${problem.detail}` : told;
}

export function ProblemNote({ error }: { error: ApiError }) {
  return (
    <p class="problem" role="alert">
      {describe(error)}
    </p>
  );
}
