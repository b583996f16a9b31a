import java.sql.DriverManager;
import java.sql.SQLException;

class Driver {
    public static void main(String[] orders) throws SQLException {
        var mysql = System.getenv("DB_DIALECT").equals("mysql");
        var url = "jdbc:%s://%s:%s/%s".formatted(mysql ? "mariadb" : "postgresql", System.getenv("DB_HOST"), System.getenv("DB_PORT"), mysql ? "shop" : "postgres");
        try (var connection = DriverManager.getConnection(url, System.getenv("DB_USER"), "")) {
            for (var order : orders) {
                try {
                    Orders.placeOrder(connection, Long.parseLong(order), 100);
                    System.out.println(order);
                } catch (SQLException e) {
                    System.err.println(e);
                }
            }
        }
    }
}
