// Receives duehook's webhooks, with the standard library of Java 11 or newer only.
import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Receiver {
    // Two secrets while the secret is being changed.
    static final String[] SECRETS = System.getenv("WEBHOOK_SECRETS").split(",");
    static final long TOLERANCE = 300; // seconds
    static final int MAX_BODY = 1 << 20;
    static final Set<String> HANDLED = ConcurrentHashMap.newKeySet(); // in production: a table with a unique key

    static boolean verified(Headers headers, byte[] body) throws GeneralSecurityException {
        String id = headers.getFirst("webhook-id");
        String timestamp = headers.getFirst("webhook-timestamp");
        String given = headers.getFirst("webhook-signature");
        if (id == null || timestamp == null || given == null || !timestamp.matches("[0-9]{1,15}")
                || Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(timestamp)) > TOLERANCE) {
            return false;
        }
        for (String secret : SECRETS) {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.replaceFirst("^whsec_", "")), "HmacSHA256"));
            mac.update((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
            byte[] signature = mac.doFinal(body); // the body as it came
            byte[] expected = ("v1," + Base64.getEncoder().encodeToString(signature)).getBytes(StandardCharsets.UTF_8);
            for (String one : given.split(" ")) {
                if (MessageDigest.isEqual(expected, one.getBytes(StandardCharsets.UTF_8))) {
                    return true;
                }
            }
        }
        return false;
    }

    static void handle(String topic, String jobId, byte[] body) {
        System.out.println(topic + " " + jobId + " " + new String(body, StandardCharsets.UTF_8));
    }

    static int receive(HttpExchange exchange) throws IOException, GeneralSecurityException {
        byte[] body = exchange.getRequestBody().readNBytes(MAX_BODY + 1);
        if (body.length > MAX_BODY) {
            return 413;
        }
        Headers headers = exchange.getRequestHeaders();
        if (!verified(headers, body)) {
            return 401;
        }
        String id = headers.getFirst("webhook-id");
        if (!HANDLED.contains(id)) {
            handle(headers.getFirst("duehook-topic"), headers.getFirst("duehook-job-id"), body);
            HANDLED.add(id); // after success only: a failed delivery comes again with the same id
        }
        return 200;
    }

    public static void main(String[] args) throws IOException {
        String port = System.getenv().getOrDefault("PORT", "8080");
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(port)), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", exchange -> {
            try (exchange) {
                int status = 500; // duehook tries again
                try {
                    status = receive(exchange);
                } catch (GeneralSecurityException | RuntimeException e) {
                    e.printStackTrace();
                }
                exchange.sendResponseHeaders(status, -1);
            }
        });
        server.start();
        System.out.println("listening on 127.0.0.1:" + server.getAddress().getPort());
    }
}
