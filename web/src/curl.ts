import { key, type Stored } from './api';

/** A shell takes no longer words for another command, but any for its own. */
const longestWord = 40_000;

/** A command for a POSIX shell that registers the job once more, under an id of its own. The key is left to the shell. */
export function curl({ text }: Stored): string {
  const data = quoted(text.replace(/"id":"[^"]*",/, '')); // the first: no topic has quotes in its name
  const long = data.length > longestWord;
  const command = [
    `curl ${quoted(`${location.origin}/v1/jobs`)}`,
    ...(key.value ? ['-H "Authorization: Bearer $TOKEN"'] : []),
    "-H 'Content-Type: application/json'",
    long ? '--data-binary @-' : `-d ${data}`,
  ].join(' \\\n  ');
  return long ? `printf %s ${data} | ${command}` : command;
}

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;
