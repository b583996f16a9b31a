"""Prints what duehook delivers, and answers 200."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        print(f"{self.command} {self.path}\n{self.headers}{body.decode(errors='replace')}\n")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_PATCH = do_GET = do_DELETE = do_POST

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("", 8080), Receiver).serve_forever()
