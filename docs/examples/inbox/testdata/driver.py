import os, sys

sys.path.insert(0, "..")
from orders import place_order

user, host, port = os.environ["DB_USER"], os.environ["DB_HOST"], int(os.environ["DB_PORT"])
if os.environ["DB_DIALECT"] == "mysql":
    import pymysql

    connection = pymysql.connect(user=user, host=host, port=port, database="shop")
else:
    import psycopg2

    connection = psycopg2.connect(user=user, host=host, port=port, dbname="postgres")
for order in sys.argv[1:]:
    try:
        place_order(connection, int(order), 100)
        print(order)
    except Exception as e:
        print(e, file=sys.stderr)
