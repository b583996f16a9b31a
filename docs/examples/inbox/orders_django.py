import json

from django.db import connection, transaction


@transaction.atomic
def place_order(order, total):
    """Writes the order and its timeout: both, or none."""
    job = {
        "topic": "order-timeout", "id": f"order-{order}", "delay": "30m",
        "url": "https://shop.example/hooks/timeout", "body": {"order_id": order},
    }
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders (id, total) VALUES (%s, %s)", [order, total])  # or Order.objects.create(…)
        cursor.execute("INSERT INTO duehook_inbox (request) VALUES (%s)", [json.dumps(job)])
