// java docs/examples/testing/OrderTest.java (Java 17 or newer)
import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Objects;
import java.util.regex.Pattern;

public class OrderTest {
    static final HttpClient client = HttpClient.newHttpClient();
    static String base;

    public static void main(String[] args) throws Exception {
        String binary = Objects.requireNonNullElse(System.getenv("DUEHOOK"), "duehook");
        Process duehook = new ProcessBuilder(binary, "dev", "--frozen", "--addr", "127.0.0.1:0")
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (BufferedReader out = duehook.inputReader()) {
            base = out.lines().map(line -> find("http://\\S+", line)).filter(Objects::nonNull).findFirst().orElseThrow();
            unpaidOrderIsClosedAfter30Minutes();
            System.out.println("ok");
        } finally {
            duehook.destroy();
            duehook.waitFor();
        }
    }

    static void unpaidOrderIsClosedAfter30Minutes() throws Exception {
        call("PUT", "/v1/dev/sinks/shop", "{\"answers\": [{\"status\": 503}, {\"status\": 200}]}");
        // Your code would register this job.
        call("POST", "/v1/jobs", "{\"topic\": \"orders\", \"id\": \"1\", \"url\": \"http://sink/shop/close\", \"delay\": \"30m\", \"body\": {\"order\": 1}}");

        check("\"attempts\":0", call("POST", "/v1/dev/clock", "{\"advance\": \"29m\"}"));
        check("\"attempts\":2", call("POST", "/v1/dev/clock", "{\"advance\": \"2m\"}")); // the second one after 15 s

        String sink = call("GET", "/v1/dev/sinks/shop", "");
        check("\"total\":2,", sink);
        check("\"path\":\"/close\"", sink);
        check("\"signature\":\"valid\"", sink);
        check("\"state\":\"delivered\"", call("GET", "/v1/jobs/orders/1", ""));
    }

    static String call(String method, String path, String body) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(base + path)).header("Content-Type", "application/json")
                .method(method, body.isEmpty() ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() >= 300) {
            throw new AssertionError(method + " " + path + ": " + response.statusCode() + " " + response.body());
        }
        return response.body();
    }

    static void check(String part, String text) {
        if (!text.contains(part)) {
            throw new AssertionError("no " + part + " in " + text);
        }
    }

    static String find(String pattern, String text) {
        var found = Pattern.compile(pattern).matcher(text);
        return found.find() ? found.group() : null;
    }
}
