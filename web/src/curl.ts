import { key, type Stored } from './api';

/** Longer data goes through a pipe: commands limit the length of an argument, the builtin printf does not. */
const longestWord = 40_000;

/** A command for a POSIX shell that registers a copy of the job under a new id. The key comes from a variable of the shell. */
export function curl({ text }: Stored): string {
  const data = quoted(text.replace(/"id":"[^"]*",/, '')); // the first match: topics cannot contain quotes
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
