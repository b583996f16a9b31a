/** A webhook receiver that answers as the path asks: /answer/503 with a 503, /reschedule/<time> with an action, everything else with a 200. */
import { once } from 'node:events';
import { createServer } from 'node:http';

/** What no page may run or show as anything but text. */
export const hostileBody = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>';

export async function startReceiver(port = 0) {
  const held = new Set();
  const server = createServer((request, response) => {
    request.resume();
    const [, kind, status] = request.url.split('/');
    if (kind === 'hold') {
      held.add(response);
      response.on('close', () => held.delete(response));
      return;
    }
    if (kind === 'hostile') {
      response.writeHead(500, { 'Content-Type': 'text/html' }).end(hostileBody.padEnd(4000, ' and on'));
      return;
    }
    if (kind === 'reschedule') {
      response.writeHead(200, { 'Duehook-Action': 'reschedule', 'Duehook-At': status }).end();
      return;
    }
    response.writeHead(kind === 'answer' ? Number(status) : 200).end(kind === 'answer' ? '{"error":"try again later"}' : 'success');
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    /** Answers what /hold has kept waiting. */
    release: () => held.forEach((response) => response.end('success')),
    async stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}
