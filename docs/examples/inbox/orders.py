import json


def place_order(connection, order, total):
    """Writes the order and its timeout: both, or none. The connection is one of psycopg, psycopg2, PyMySQL or mysqlclient."""
    job = {
        "topic": "order-timeout", "id": f"order-{order}", "delay": "30m",
        "url": "https://shop.example/hooks/timeout", "body": {"order_id": order},
    }
    try:
        cursor = connection.cursor()
        cursor.execute("INSERT INTO orders (id, total) VALUES (%s, %s)", (order, total))
        cursor.execute("INSERT INTO duehook_inbox (request) VALUES (%s)", (json.dumps(job),))
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
