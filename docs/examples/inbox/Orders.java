import java.sql.Connection;
import java.sql.SQLException;

class Orders {
    /** Writes the order and its timeout: both, or none. */
    static void placeOrder(Connection connection, long order, long total) throws SQLException {
        connection.setAutoCommit(false);
        try (var orders = connection.prepareStatement("INSERT INTO orders (id, total) VALUES (?, ?)");
             var inbox = connection.prepareStatement("INSERT INTO duehook_inbox (request) VALUES (?)")) {
            orders.setLong(1, order);
            orders.setLong(2, total);
            orders.executeUpdate();
            inbox.setString(1, """
                {"topic": "order-timeout", "id": "order-%d", "delay": "30m",
                 "url": "https://shop.example/hooks/timeout", "body": {"order_id": %d}}
                """.formatted(order, order));
            inbox.executeUpdate();
            connection.commit();
        } catch (SQLException e) {
            connection.rollback();
            throw e;
        }
    }
}
