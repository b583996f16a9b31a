"""An order service: closes orders that nobody pays, and notifies a merchant of payments."""
import base64
import hashlib
import hmac
import json
import re
import threading
import time
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Shop:
    def __init__(self, duehook, merchant, secret, token=None):
        self.duehook, self.merchant, self.secret, self.token = duehook, merchant, secret, token
        self.lock, self.orders = threading.Lock(), {}  # states by id; a database in a real shop
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.url = "http://127.0.0.1:%d/hooks/close" % self.server.server_address[1]

    def place(self, order):
        """Stores an order and registers its timeout. Repeating it changes nothing."""
        self.change(order, None, "unpaid")
        self.call("POST", "/v1/jobs", {"topic": "order-timeout", "id": order, "delay": "30m", "url": self.url, "body": {"order": order}})

    def pay(self, order):
        """Cancels the timeout and notifies the merchant until it answers "success"."""
        if not self.change(order, "unpaid", "paid"):
            return
        self.call("DELETE", "/v1/jobs/order-timeout/" + urllib.parse.quote(order, safe=""))
        self.call("POST", "/v1/jobs", {"topic": "payment-notify", "id": order, "url": self.merchant,
                                       "body": {"paid": order}, "expect": {"body": "success"}})

    def change(self, order, old, new):
        with self.lock:
            if self.orders.get(order) != old:
                return False
            self.orders[order] = new
            return True

    def call(self, method, path, body=None):
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        urllib.request.urlopen(urllib.request.Request(self.duehook + path, data, headers, method=method)).close()

    def handler(shop):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                genuine = verify(shop.secret, self.headers, body)
                if genuine:  # a cancelled timeout may still arrive
                    shop.change(json.loads(body)["order"], "unpaid", "closed")
                self.send_response(200 if genuine else 401)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        return Handler


def verify(secret, headers, body):
    """Whether a delivery is genuine. The body is the bytes as they came."""
    sent = headers.get("webhook-timestamp", "")
    if not re.fullmatch("[0-9]{1,15}", sent) or abs(time.time() - int(sent)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers.get('webhook-id', '')}.{sent}.".encode(errors="replace") + body
    wanted = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    return any(hmac.compare_digest(one.encode(errors="replace"), wanted) for one in headers.get("webhook-signature", "").split(" "))
