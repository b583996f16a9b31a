import os, sys

import django
from django.conf import settings

sys.path.insert(0, "..")
settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": "postgres",
    "USER": os.environ["DB_USER"], "HOST": os.environ["DB_HOST"], "PORT": os.environ["DB_PORT"],
}})
django.setup()
from orders_django import place_order

for order in sys.argv[1:]:
    try:
        place_order(int(order), 100)
        print(order)
    except Exception as e:
        print(e, file=sys.stderr)
