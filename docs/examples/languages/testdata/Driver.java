import java.util.Map;

class Driver {
    public static void main(String[] a) throws Exception {
        switch (a[0]) {
            case "placed" -> Orders.placed(a[1]);
            case "paid" -> System.out.println(Orders.paid(a[1]));
            default -> System.out.println(Orders.verify(a[5],
                Map.of("webhook-id", a[1], "webhook-timestamp", a[2], "webhook-signature", a[3]), a[4].getBytes("UTF-8")));
        }
    }
}
