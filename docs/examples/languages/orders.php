<?php
// Registers a job when an order is placed, cancels it when it is paid, and verifies deliveries. No packages.

function call(string $method, string $path, ?array $body = null): int {
    $headers = ['Content-Type: application/json'];
    if ($token = getenv('DUEHOOK_TOKEN')) $headers[] = "Authorization: Bearer $token";
    $http = ['method' => $method, 'ignore_errors' => true, 'header' => $headers, 'content' => $body === null ? '' : json_encode($body)];
    $answer = file_get_contents(getenv('DUEHOOK_URL') . $path, false, stream_context_create(['http' => $http]));
    $status = (int) explode(' ', $http_response_header[0] ?? '')[1];
    if (intdiv($status, 100) !== 2) throw new RuntimeException($answer); // a problem document
    return $status;
}

function placed(string $order): void { // safe to repeat: the same id and content is the same job
    call('POST', '/v1/jobs', ['topic' => 'orders', 'id' => $order, 'url' => getenv('SHOP_URL'), 'delay' => '30m', 'body' => ['order' => $order]]);
}

/** Whether the job never arrives. Otherwise (202) an attempt is in flight, and the receiver has to look. */
function paid(string $order): bool {
    return call('DELETE', '/v1/jobs/orders/' . rawurlencode($order)) === 200;
}

// What a receiver answers with 503 to be asked again later, without using an attempt. 410 gives up.
const AGAIN_LATER = ['Duehook-Action: snooze', 'Retry-After: 60'];

/** Whether a delivery is genuine. The body is the bytes as they came: file_get_contents('php://input'). */
function verify(string $secret, array $headers, string $body): bool {
    $time = $headers['webhook-timestamp'] ?? '';
    if (!preg_match('/^\d{1,15}$/D', $time) || abs(time() - (int) $time) > 300) return false;
    $key = base64_decode(preg_replace('/^whsec_/', '', $secret));
    $wanted = 'v1,' . base64_encode(hash_hmac('sha256', ($headers['webhook-id'] ?? '') . ".$time.$body", $key, true));
    foreach (explode(' ', $headers['webhook-signature'] ?? '') as $one) if (hash_equals($wanted, $one)) return true;
    return false;
}
