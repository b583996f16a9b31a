import sys

sys.path.insert(0, "..")
import orders

step, *args = sys.argv[1:]
if step == "verify":
    for i in range(0, len(args), 5):
        id, time, signature, body, secret = args[i : i + 5]
        headers = {"webhook-id": id, "webhook-timestamp": time, "webhook-signature": signature}
        print(str(orders.verify(secret, headers, body.encode())).lower())
else:
    print(str(getattr(orders, step)(args[0])).lower())
