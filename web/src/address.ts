/** Query parameters; a name may repeat. */
export type Query = readonly (readonly [string, string])[];

/** A path with its query. */
export function address(path: string[], query: Query = []): string {
  const search = new URLSearchParams(query.map(([name, value]) => [name, value])).toString();
  return `/${path.map(encodeURIComponent).join('/')}${search && `?${search}`}`;
}
