<?php
require '../orders.php';
$mysql = getenv('DB_DIALECT') === 'mysql';
$db = new PDO(($mysql ? 'mysql:dbname=shop' : 'pgsql:dbname=postgres') . ';host=' . getenv('DB_HOST') . ';port=' . getenv('DB_PORT'), getenv('DB_USER'), '');
foreach (array_slice($argv, 1) as $order) {
    try {
        placeOrder($db, (int) $order, 100);
        echo "$order\n";
    } catch (Throwable $e) {
        fwrite(STDERR, "$e\n");
    }
}
