/** The parts of an OpenAPI 3.1 document that the page shows. */

export interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
  allOf?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  format?: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
}

export interface Parameter {
  $ref?: string;
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: Schema;
}

type Content = Record<string, { schema?: Schema; examples?: Record<string, { summary?: string; value: unknown }> }>;

export interface Answer {
  $ref?: string;
  description: string;
  headers?: Record<string, { $ref?: string; description?: string }>;
  content?: Content;
}

export interface Call {
  tags: string[];
  operationId: string;
  summary: string;
  description?: string;
  security?: Record<string, string[]>[];
  parameters?: Parameter[];
  requestBody?: { content: Content };
  responses: Record<string, Answer>;
}

export interface OpenAPI {
  info: { description: string };
  tags: { name: string; description?: string }[];
  paths: Record<string, Record<string, Call> & { parameters?: Parameter[] }>;
}

/** A call with its method and path. */
export interface Operation extends Call {
  method: string;
  path: string;
}

let all: OpenAPI;

export async function load(): Promise<OpenAPI> {
  const answer = await fetch('/openapi.json');
  if (!answer.ok) throw new Error(`GET /openapi.json: ${answer.status}`);
  return (all = (await answer.json()) as OpenAPI);
}

/** What an object refers to, or the object itself. */
export function resolve<T extends { $ref?: string }>(of: T): T {
  if (!of.$ref) return of;
  const found = of.$ref
    .slice(2)
    .split('/')
    .reduce<unknown>((at, part) => (at as Record<string, unknown>)[part.replaceAll('~1', '/').replaceAll('~0', '~')], all);
  return resolve(found as T);
}

/** All calls, with the parameters that the calls of a path share. */
export function operations({ paths }: OpenAPI): Operation[] {
  const all = Object.entries(paths).flatMap(([path, { parameters: shared = [], ...calls }]) =>
    Object.entries(calls).map(([method, call]) => ({
      ...call,
      parameters: [...shared, ...(call.parameters ?? [])],
      method: method.toUpperCase(),
      path,
    })),
  );
  return all.toSorted((a, b) => Number(isAside(a)) - Number(isAside(b)) || compare(a.path, b.path) || methods.indexOf(a.method) - methods.indexOf(b.method));
}

/** The methods in the order in which a reader needs them: what makes something comes first. */
const methods = ['POST', 'PUT', 'GET', 'PATCH', 'DELETE'];

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b));

/** Whether a call is of another collection than that of its tag, as /v1/dead among the jobs. */
const isAside = ({ path, tags }: Operation): boolean => path.split('/')[2] !== tags[0];

/** A schema with its parts (allOf) as one. */
export function merged(schema: Schema): Schema {
  const { allOf, ...own } = resolve(schema);
  const parts = [...(allOf ?? []).map(merged), own];
  const whole: Schema = Object.assign({}, ...parts);
  const properties = Object.assign({}, ...parts.map((part) => part.properties ?? {})) as Record<string, Schema>;
  if (Object.keys(properties).length > 0) whole.properties = properties;
  const required = parts.flatMap((part) => part.required ?? []);
  if (required.length > 0) whole.required = required;
  return whole;
}
