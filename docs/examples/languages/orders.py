"""Registers a job when an order is placed, cancels it when it is paid, and verifies deliveries. No packages."""
import base64, hashlib, hmac, json, os, re, time, urllib.parse, urllib.request


def call(method, path, body=None):
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("DUEHOOK_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["DUEHOOK_URL"] + path, data, headers, method=method)
    with urllib.request.urlopen(request) as answer:  # an HTTPError has the problem document
        return answer.status


def placed(order):  # safe to repeat: the same id and content is the same job
    call("POST", "/v1/jobs", {"topic": "orders", "id": order, "url": os.environ["SHOP_URL"], "delay": "30m", "body": {"order": order}})


def paid(order):
    """Whether the job never arrives. Otherwise (202) an attempt is in flight, and the receiver has to look."""
    return call("DELETE", "/v1/jobs/orders/" + urllib.parse.quote(order, safe="")) == 200


# What a receiver answers to be asked again later, without using an attempt. 410 gives up.
AGAIN_LATER = (503, {"Duehook-Action": "snooze", "Retry-After": "60"})


def verify(secret, headers, body):
    """Whether a delivery is genuine. The body is the bytes as they came."""
    sent = headers.get("webhook-timestamp", "")
    if not re.fullmatch("[0-9]{1,15}", sent) or abs(time.time() - int(sent)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers.get('webhook-id', '')}.{sent}.".encode(errors="replace") + body  # some frameworks have surrogates in headers
    wanted = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    return any(hmac.compare_digest(one.encode(errors="replace"), wanted) for one in headers.get("webhook-signature", "").split(" "))
