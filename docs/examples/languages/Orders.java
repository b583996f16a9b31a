import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import static java.nio.charset.StandardCharsets.UTF_8;

/** Registers a job when an order is placed, cancels it when it is paid, and verifies deliveries. No packages. */
class Orders {
    static final HttpClient http = HttpClient.newHttpClient();

    static int call(String method, String path, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(System.getenv("DUEHOOK_URL") + path))
            .header("Content-Type", "application/json")
            .method(method, HttpRequest.BodyPublishers.ofString(body));
        var token = System.getenv("DUEHOOK_TOKEN");
        if (token != null && !token.isEmpty()) request.header("Authorization", "Bearer " + token);
        var answer = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() / 100 != 2) throw new IllegalStateException(answer.body()); // a problem document
        return answer.statusCode();
    }

    static void placed(String order) throws Exception { // safe to repeat: the same id and content is the same job
        call("POST", "/v1/jobs", """
            {"topic": "orders", "id": "%s", "url": "%s", "delay": "30m", "body": {"order": "%s"}}
            """.formatted(order, System.getenv("SHOP_URL"), order)); // names need no escapes in JSON
    }

    /** Whether the job never arrives. Otherwise (202) an attempt is in flight, and the receiver has to look. */
    static boolean paid(String order) throws Exception {
        return call("DELETE", "/v1/jobs/orders/" + URLEncoder.encode(order, UTF_8).replace("+", "%20"), "") == 200;
    }

    /** What a receiver answers with 503 to be asked again later, without using an attempt. 410 gives up. */
    static final Map<String, String> AGAIN_LATER = Map.of("Duehook-Action", "snooze", "Retry-After", "60");

    /** Whether a delivery is genuine. The body is the bytes as they came. */
    static boolean verify(String secret, Map<String, String> headers, byte[] body) throws Exception {
        var time = headers.getOrDefault("webhook-timestamp", "");
        if (!time.matches("[0-9]{1,15}") || Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(time)) > 300) return false;
        var mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.replaceFirst("^whsec_", "")), "HmacSHA256"));
        mac.update((headers.getOrDefault("webhook-id", "") + "." + time + ".").getBytes(UTF_8));
        var wanted = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(UTF_8);
        for (var one : headers.getOrDefault("webhook-signature", "").split(" "))
            if (MessageDigest.isEqual(one.getBytes(UTF_8), wanted)) return true;
        return false;
    }
}
