# Receives duehook's webhooks, with the standard library only.
import base64
import hmac
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Two secrets while the secret is being changed.
SECRETS = [base64.b64decode(s.removeprefix("whsec_")) for s in os.environ["WEBHOOK_SECRETS"].split(",")]
if any(len(secret) < 24 for secret in SECRETS):
    raise SystemExit("WEBHOOK_SECRETS: not signing secrets")
TOLERANCE = 300  # seconds
MAX_BODY = 1 << 20
handled = set()  # in production: a table with a unique key


def verified(headers, body):
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    try:
        if not message_id or abs(time.time() - int(timestamp)) > TOLERANCE:
            return False
    except ValueError:
        return False
    signed = f"{message_id}.{timestamp}.".encode(errors="replace") + body  # the body as it came
    signatures = headers.get("webhook-signature", "").encode(errors="replace").split(b" ")
    for secret in SECRETS:
        expected = b"v1," + base64.b64encode(hmac.digest(secret, signed, "sha256"))
        if any(hmac.compare_digest(expected, s) for s in signatures):
            return True
    return False


def handle(topic, job_id, body):
    print(topic, job_id, body, flush=True)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    def do_POST(self):
        size = int(self.headers.get("content-length", "-1"))  # duehook always sends it
        if not 0 <= size <= MAX_BODY:
            self.close_connection = True
            return self.answer(413)
        body = self.rfile.read(size)
        if not verified(self.headers, body):
            return self.answer(401)
        message_id = self.headers["webhook-id"]
        if message_id not in handled:
            try:
                handle(self.headers["duehook-topic"], self.headers["duehook-job-id"], body)
            except Exception as e:
                self.log_error("%s: %r", message_id, e)
                return self.answer(500)  # duehook tries again, with the same id
            handled.add(message_id)  # after success only
        self.answer(200)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Receiver)
    print("listening on", "127.0.0.1:%d" % server.server_port, flush=True)
    server.serve_forever()
