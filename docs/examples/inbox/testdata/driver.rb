require "active_record"
require_relative "../orders_rails"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", database: "postgres", username: ENV["DB_USER"], host: ENV["DB_HOST"], port: ENV["DB_PORT"]
)
ARGV.each do |order|
  place_order(order.to_i, 100)
  puts order
rescue StandardError => e
  warn e
end
