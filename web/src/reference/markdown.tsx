/** The Markdown of the document's descriptions: paragraphs, lists, code and links. */
import type { ComponentChildren, JSX } from 'preact';

const marks = /`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\((https?:[^)]+)\)/g;

function inline(text: string): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const m of text.matchAll(marks)) {
    parts.push(text.slice(at, m.index));
    if (m[1]) parts.push(<code>{m[1]}</code>);
    else if (m[2]) parts.push(<strong>{m[2]}</strong>);
    else if (m[4]) parts.push(<a href={m[4]}>{m[3]}</a>);
    at = m.index + m[0].length;
  }
  return [...parts, text.slice(at)];
}

export const Line = ({ text }: { text: string | undefined }): JSX.Element => <>{inline(text ?? '')}</>;

export function Markdown({ text }: { text: string | undefined }): JSX.Element {
  const blocks = (text ?? '').trim().split(/\n\s*\n/).filter(Boolean);
  return (
    <>
      {blocks.map((block) =>
        /^[-*] /.test(block) ? (
          <ul>
            {block.split(/\n(?=[-*] )/).map((item) => (
              <li>{inline(item.slice(2))}</li>
            ))}
          </ul>
        ) : (
          <p>{inline(block)}</p>
        ),
      )}
    </>
  );
}
