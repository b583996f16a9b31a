"""Registers a job when an order is placed, cancels it when it is paid, and verifies deliveries. No packages."""
import base64, hashlib, hmac, json, os, time, urllib.request


def call(method, path, body=None):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('DUEHOOK_TOKEN')}"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["DUEHOOK_URL"] + path, data, headers, method=method)
    with urllib.request.urlopen(request) as answer:  # an HTTPError has the problem document
        return json.load(answer)


def placed(order):  # safe to repeat: the same id and content is the same job
    job = {"topic": "orders", "id": str(order), "url": os.environ["SHOP_URL"], "delay": "30m", "body": {"order": order}}
    return call("POST", "/v1/jobs", job)


def paid(order):
    return call("DELETE", f"/v1/jobs/orders/{order}")


# What a receiver answers to be asked again later, without using an attempt. 410 gives up.
AGAIN_LATER = (503, {"Duehook-Action": "snooze", "Retry-After": "60"})


def verify(secret, headers, body):
    """Whether a delivery is genuine. The body is the bytes as they came."""
    sent = headers.get("webhook-timestamp", "0")
    if abs(time.time() - int(sent)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{sent}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(one, wanted) for one in headers.get("webhook-signature", "").split())
