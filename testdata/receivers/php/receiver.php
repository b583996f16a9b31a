<?php
// Receives duehook's webhooks. To try it: php -S 127.0.0.1:8080 receiver.php

// Two secrets while the secret is being changed.
$secrets = explode(',', getenv('WEBHOOK_SECRETS'));
const TOLERANCE = 300; // seconds
const MAX_BODY = 1 << 20;

function verified(array $secrets, array $headers, string $body): bool
{
    $id = $headers['webhook-id'] ?? '';
    $timestamp = $headers['webhook-timestamp'] ?? '';
    $signatures = explode(' ', $headers['webhook-signature'] ?? '');
    if ($id === '' || !preg_match('/^\d{1,15}$/D', $timestamp) || abs(time() - (int) $timestamp) > TOLERANCE) {
        return false;
    }
    foreach ($secrets as $secret) {
        $key = base64_decode(preg_replace('/^whsec_/', '', $secret), true);
        if ($key === false || strlen($key) < 24) {
            throw new RuntimeException('WEBHOOK_SECRETS: not a signing secret');
        }
        $signature = hash_hmac('sha256', "$id.$timestamp.$body", $key, true); // the body as it came
        foreach ($signatures as $given) {
            if (hash_equals('v1,' . base64_encode($signature), $given)) {
                return true;
            }
        }
    }
    return false;
}

function handle(string $id, string $topic, string $jobId, string $body): void
{
    // Write $id into a table with a unique key, in the transaction that does
    // the work, and return early if it is there: the same delivery may come again.
    error_log("$topic $jobId $body");
}

$headers = array_change_key_case(getallheaders());
$body = file_get_contents('php://input', false, null, 0, MAX_BODY + 1);
if (strlen($body) > MAX_BODY) {
    http_response_code(413);
} elseif (!verified($secrets, $headers, $body)) {
    http_response_code(401);
} else {
    // An exception makes PHP answer 500: duehook tries again.
    handle($headers['webhook-id'], $headers['duehook-topic'] ?? '', $headers['duehook-job-id'] ?? '', $body);
    http_response_code(200);
}
