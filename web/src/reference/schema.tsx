/** A schema as a table of fields. Nested objects open on demand, so schemas may contain themselves. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { merged, type Schema } from './document';
import { Line } from './markdown';

/** "array of string", "string or null", "Job" */
export function typeOf(schema: Schema): string {
  const { type, items, anyOf, oneOf, const: only, enum: values, properties } = merged(schema);
  if (only !== undefined) return JSON.stringify(only);
  if (values) return values.map((value) => JSON.stringify(value)).join(' | ');
  const choices = anyOf ?? oneOf;
  if (choices && !type && !properties) return [...new Set(choices.map(typeOf))].join(' or ');
  const types = [type ?? (properties ? 'object' : 'any')].flat();
  return types.map((one) => (one === 'array' && items ? `array of ${typeOf(items)}` : one)).join(' or ');
}

/** The bounds of a value, as words. */
function bounds(schema: Schema): string[] {
  const { default: otherwise, minimum, maximum, minLength, maxLength, minItems, maxItems, format, pattern } = schema;
  const range = (from: number | undefined, to: number | undefined, unit: string) =>
    from === undefined && to === undefined ? [] : [`${from ?? ''}…${to ?? ''}${unit}`];
  return [
    ...(otherwise === undefined ? [] : [`default ${JSON.stringify(otherwise)}`]),
    ...range(minimum, maximum, ''),
    ...range(minLength, maxLength, ' characters'),
    ...range(minItems, maxItems, ' items'),
    ...(format ? [format] : []),
    ...(pattern ? [pattern] : []),
  ];
}

/** What can be opened below a schema. */
function nested(schema: Schema): Schema[] {
  const whole = merged(schema);
  if (whole.properties) return [whole];
  const below = [whole.items, ...(whole.anyOf ?? whole.oneOf ?? [])];
  if (typeof whole.additionalProperties === 'object') below.push(whole.additionalProperties);
  return below.filter((one) => one !== undefined).flatMap(nested);
}

export function Value({ schema }: { schema: Schema }): JSX.Element {
  const whole = merged(schema);
  return (
    <>
      <span class="mono type">{typeOf(schema)}</span>
      {bounds(whole).map((bound) => (
        <span class="tag mono">{bound}</span>
      ))}
    </>
  );
}

/** The fields of a schema: of an object, of the entries of a list, or of each choice. */
export function Fields({ schema }: { schema: Schema }): JSX.Element {
  return (
    <>
      {nested(schema).map((one) => (
        <dl class="fields">
          {Object.entries(one.properties!).map(([name, field]) => (
            <Field name={name} schema={field} required={one.required?.includes(name) ?? false} />
          ))}
        </dl>
      ))}
    </>
  );
}

function Field({ name, schema, required }: { name: string; schema: Schema; required: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <div>
      <dt>
        <code>{name}</code> <Value schema={schema} /> {required && <span class="tag">required</span>}
      </dt>
      <dd>
        <Line text={merged(schema).description} />
        {nested(schema).length > 0 && (
          <details onToggle={(e) => setOpen(e.currentTarget.open)}>
            <summary>Fields of {name}</summary>
            {open && <Fields schema={schema} />}
          </details>
        )}
      </dd>
    </div>
  );
}
