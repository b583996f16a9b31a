<?php
// Registers a job when an order is placed, cancels it when it is paid, and verifies deliveries. No packages.

function call(string $method, string $path, ?array $body = null): array {
    $http = ['method' => $method, 'ignore_errors' => true, 'content' => $body === null ? '' : json_encode($body),
        'header' => ['Content-Type: application/json', 'Authorization: Bearer ' . getenv('DUEHOOK_TOKEN')]];
    $answer = json_decode(file_get_contents(getenv('DUEHOOK_URL') . $path, false, stream_context_create(['http' => $http])), true);
    if (isset($answer['code'])) throw new RuntimeException($answer['detail']); // a problem document
    return $answer;
}

function placed(int $order): array { // safe to repeat: the same id and content is the same job
    return call('POST', '/v1/jobs', ['topic' => 'orders', 'id' => "$order", 'url' => getenv('SHOP_URL'), 'delay' => '30m', 'body' => ['order' => $order]]);
}

function paid(int $order): array {
    return call('DELETE', "/v1/jobs/orders/$order");
}

// What a receiver answers with 503 to be asked again later, without using an attempt. 410 gives up.
const AGAIN_LATER = ['Duehook-Action: snooze', 'Retry-After: 60'];

/** Whether a delivery is genuine. The body is the bytes as they came: file_get_contents('php://input'). */
function verify(string $secret, array $headers, string $body): bool {
    $time = $headers['webhook-timestamp'] ?? '0';
    if (abs(time() - (int) $time) > 300) return false;
    $key = base64_decode(preg_replace('/^whsec_/', '', $secret));
    $wanted = 'v1,' . base64_encode(hash_hmac('sha256', "{$headers['webhook-id']}.$time.$body", $key, true));
    foreach (explode(' ', $headers['webhook-signature'] ?? '') as $one) if (hash_equals($wanted, $one)) return true;
    return false;
}
