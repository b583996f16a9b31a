import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Registers a job when an order is placed, cancels it when it is paid, and verifies deliveries. No packages. */
class Orders {
    static final HttpClient http = HttpClient.newHttpClient();

    static HttpResponse<String> call(String method, String path, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(System.getenv("DUEHOOK_URL") + path))
            .header("Content-Type", "application/json")
            .header("Authorization", "Bearer " + System.getenv("DUEHOOK_TOKEN"))
            .method(method, HttpRequest.BodyPublishers.ofString(body));
        return http.send(request.build(), HttpResponse.BodyHandlers.ofString());
    }

    static void placed(int order) throws Exception { // safe to repeat: the same id and content is the same job
        var answer = call("POST", "/v1/jobs", """
            {"topic": "orders", "id": "%d", "url": "%s", "delay": "30m", "body": {"order": %d}}
            """.formatted(order, System.getenv("SHOP_URL"), order));
        if (answer.statusCode() / 100 != 2) throw new IllegalStateException(answer.body());
    }

    static void paid(int order) throws Exception {
        call("DELETE", "/v1/jobs/orders/" + order, "");
    }

    /** What a receiver answers with 503 to be asked again later, without using an attempt. 410 gives up. */
    static final Map<String, String> AGAIN_LATER = Map.of("Duehook-Action", "snooze", "Retry-After", "60");

    /** Whether a delivery is genuine. The body is the bytes as they came. */
    static boolean verify(String secret, Map<String, String> headers, byte[] body) throws Exception {
        var time = headers.getOrDefault("webhook-timestamp", "0");
        if (Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(time)) > 300) return false;
        var mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.replaceFirst("^whsec_", "")), "HmacSHA256"));
        mac.update((headers.get("webhook-id") + "." + time + ".").getBytes());
        var wanted = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes();
        for (var one : headers.getOrDefault("webhook-signature", "").split(" "))
            if (MessageDigest.isEqual(one.getBytes(), wanted)) return true;
        return false;
    }
}
