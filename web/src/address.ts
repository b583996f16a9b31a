/** Query parameters, some of which may be there several times. */
export type Query = readonly (readonly [string, string])[];

/** A path, and behind it a query if there is one. */
export function address(path: string[], query: Query = []): string {
  const search = new URLSearchParams(query.map(([name, value]) => [name, value])).toString();
  return `/${path.map(encodeURIComponent).join('/')}${search && `?${search}`}`;
}
