# Writes the order and its timeout: both, or none.
def place_order(order, total)
  job = {
    topic: "order-timeout", id: "order-#{order}", delay: "30m",
    url: "https://shop.example/hooks/timeout", body: { order_id: order }
  }
  ActiveRecord::Base.transaction do
    database = ActiveRecord::Base.connection
    database.exec_update(ActiveRecord::Base.sanitize_sql(["INSERT INTO orders (id, total) VALUES (?, ?)", order, total])) # or Order.create!(…)
    database.exec_update(ActiveRecord::Base.sanitize_sql(["INSERT INTO duehook_inbox (request) VALUES (?)", job.to_json]))
  end
end
