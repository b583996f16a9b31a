<?php
/** Writes the order and its timeout: both, or none. */
function placeOrder(PDO $db, int $order, int $total): void {
    $job = [
        'topic' => 'order-timeout', 'id' => "order-$order", 'delay' => '30m',
        'url' => 'https://shop.example/hooks/timeout', 'body' => ['order_id' => $order],
    ];
    $db->beginTransaction();
    try {
        $db->prepare('INSERT INTO orders (id, total) VALUES (?, ?)')->execute([$order, $total]);
        $db->prepare('INSERT INTO duehook_inbox (request) VALUES (?)')->execute([json_encode($job)]);
        $db->commit();
    } catch (Throwable $e) {
        $db->rollBack();
        throw $e;
    }
}
