import java.util.Map;

class Driver {
    public static void main(String[] a) throws Exception {
        switch (a[0]) {
            case "placed" -> Orders.placed(a[1]);
            case "paid" -> System.out.println(Orders.paid(a[1]));
            default -> {
                for (int i = 1; i < a.length; i += 5) {
                    var headers = Map.of("webhook-id", a[i], "webhook-timestamp", a[i + 1], "webhook-signature", a[i + 2]);
                    System.out.println(Orders.verify(a[i + 4], headers, a[i + 3].getBytes("UTF-8")));
                }
            }
        }
    }
}
