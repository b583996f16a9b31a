<?php
require '../orders.php';
[, $step, $id, $time, $signature, $body, $secret] = $argv + array_fill(0, 7, '');
if ($step === 'verify') {
    echo json_encode(verify($secret, ['webhook-id' => $id, 'webhook-timestamp' => $time, 'webhook-signature' => $signature], $body));
} else {
    echo json_encode($step($id));
}
