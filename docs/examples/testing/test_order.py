# python3 -m unittest docs/examples/testing/test_order.py
import json
import os
import re
import subprocess
import unittest
import urllib.request
from datetime import datetime, timedelta


class OrderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        command = [os.environ.get("DUEHOOK", "duehook"), "dev", "--frozen", "--addr", "127.0.0.1:0"]
        cls.duehook = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in cls.duehook.stdout:
            if found := re.search(r"http://\S+", line):
                cls.base = found[0]
                return
        raise RuntimeError("duehook did not start")

    @classmethod
    def tearDownClass(cls):
        cls.duehook.terminate()
        cls.duehook.communicate()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def test_unpaid_order_is_closed_after_30_minutes(self):
        self.call("PUT", "/v1/dev/sinks/shop", {"answers": [{"status": 503}, {"status": 200}]})
        # Your code would register this job.
        body = {"order": 1}
        self.call("POST", "/v1/jobs", {"topic": "orders", "id": "1", "url": "http://sink/shop/close", "delay": "30m", "body": body})

        self.assertEqual(self.call("POST", "/v1/dev/clock", {"advance": "29m"})["attempts"], 0)
        self.assertEqual(self.call("POST", "/v1/dev/clock", {"advance": "2m"})["attempts"], 2)  # the second one after 15 s

        first, second = self.call("GET", "/v1/dev/sinks/shop")["requests"]
        for request in first, second:
            self.assertEqual((request["path"], json.loads(request["body"]), request["signature"]), ("/close", body, "valid"))
        at = [datetime.fromisoformat(r["at"].replace("Z", "+00:00")) for r in (first, second)]
        self.assertEqual(at[1] - at[0], timedelta(seconds=15))
        self.assertEqual(self.call("GET", "/v1/jobs/orders/1")["state"], "delivered")


if __name__ == "__main__":
    unittest.main()
