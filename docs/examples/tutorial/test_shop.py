# cd docs/examples/tutorial && python3 -m unittest test_shop.py
import json
import os
import re
import subprocess
import threading
import unittest
import urllib.request

from shop import Shop

SECRET = "whsec_ZHVlaG9vay1kZXYtc2VjcmV0LWtub3duLXRvLWFsbCE="  # of every duehook dev


class ShopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        command = [os.environ.get("DUEHOOK", "duehook"), "dev", "--frozen", "--addr", "127.0.0.1:0"]
        cls.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in cls.process.stdout:
            if found := re.search(r"http://\S+", line):
                cls.duehook = found[0]
                return
        raise RuntimeError("duehook did not start")

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        cls.process.communicate()

    def dev(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.duehook + "/v1/dev" + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def test_orders(self):
        self.dev("PUT", "/sinks/merchant", {"answers": [{"status": 503}, {"status": 200, "body": "success"}]})
        shop = Shop(self.duehook, "http://sink/merchant/paid", SECRET)
        threading.Thread(target=shop.server.serve_forever).start()
        self.addCleanup(shop.server.server_close)
        self.addCleanup(shop.server.shutdown)

        shop.place("1")
        shop.place("2")
        shop.pay("2")
        self.dev("POST", "/clock", {"advance": "1h"})  # takes milliseconds

        self.assertEqual(shop.orders, {"1": "closed", "2": "paid"})
        got = [json.loads(one["body"]) for one in self.dev("GET", "/sinks/merchant")["requests"]]
        self.assertEqual(got, [{"paid": "2"}, {"paid": "2"}])


if __name__ == "__main__":
    unittest.main()
