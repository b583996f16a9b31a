<?php
require '../orders.php';
[, $step] = $argv;
if ($step === 'verify') {
    foreach (array_chunk(array_slice($argv, 2), 5) as [$id, $time, $signature, $body, $secret]) {
        echo json_encode(verify($secret, ['webhook-id' => $id, 'webhook-timestamp' => $time, 'webhook-signature' => $signature], $body)), "\n";
    }
} else {
    echo json_encode($step($argv[2]));
}
