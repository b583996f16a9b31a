/** JSON as text: parsing would lose digits of large numbers, and white space. */

const token = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s"{}[\],:]+/g;
const opening = new Set(['{', '[']);
const closing = new Set(['}', ']']);

/** The text of a member of an object. */
export function member(object: string, name: string): string | undefined {
  const wanted = JSON.stringify(name);
  let depth = 0;
  let start = -1;
  let before = '';
  for (const { 0: part, index } of object.matchAll(token)) {
    if (depth === 1 && start >= 0 && (part === ',' || part === '}')) return object.slice(start, index);
    if (opening.has(part)) depth++;
    else if (closing.has(part)) depth--;
    else if (part === ':' && depth === 1 && before === wanted) start = index + 1;
    before = part;
  }
  return undefined;
}

export function isJSON(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** JSON with each member and element on its own line, cut after `most` characters. */
export function indented(json: string, most: number): string {
  let depth = 0;
  let text = '';
  let before = '';
  const line = () => `\n${'  '.repeat(depth)}`;
  for (const [part] of json.matchAll(token)) {
    if (closing.has(part)) {
      depth--;
      if (!opening.has(before)) text += line();
    } else if (opening.has(before) || before === ',') {
      text += line();
    }
    if (opening.has(part)) depth++;
    text += part === ':' ? ': ' : part;
    before = part;
    if (text.length > most) break;
  }
  return text;
}
