# Grape on Puma: Sequel's models, Excon with kept connections, redis-rb, and workers that take blocks from a queue.
require "connection_pool"
require "excon"
require "grape"
require "json"
require "redis"
require "sequel"

LEAF, BACK = ENV.values_at("LEAF_URL", "BACK_URL")
REDIS = ConnectionPool::Wrapper.new(size: 16) { Redis.new(port: ENV["REDIS_PORT"].to_i) }
DB = Sequel.connect(ENV["DATABASE_URL"].sub("postgresql", "postgres"), max_connections: 16)

class Item < Sequel::Model
end

class Order < Sequel::Model
  unrestrict_primary_key
end

# Threads that take blocks from a queue. What waits for a block is told by a queue of its own.
class Workers
  def initialize(count)
    @jobs = Queue.new
    count.times { Thread.new { loop { @jobs.pop.call } } }
  end

  def run(*blocks)
    done = Queue.new
    blocks.each { |block| @jobs << -> { done << block.call } }
    blocks.map { done.pop }
  end
end

WORKERS = Workers.new(8)

class Shop < Grape::API
  format :json

  helpers do
    # Excon keeps a connection for each thread.
    def fetch(url)
      uri = URI(url)
      kept = Thread.current[:kept] ||= {}
      http = kept[uri.port] ||= Excon.new("http://#{uri.host}:#{uri.port}", persistent: true)
      http.get(path: uri.path).body
    end

    def item = Item.first(id: params[:id])&.values
    def leaf(name) = fetch("#{LEAF}/#{name}/#{params[:id]}")
  end

  params { requires :id, type: String }

  get "seq/:id" do
    cached = REDIS.get("item:#{params[:id]}")
    row = item
    price = leaf("price")
    REDIS.set("item:#{params[:id]}", row.to_json, ex: 60)
    { cached: cached, row: row, price: price }
  end

  get "par/:id" do
    parts = [-> { REDIS.get("item:#{params[:id]}") }, -> { item }, -> { leaf("price") }, -> { leaf("stock") }]
    { parts: parts.map { |part| Thread.new(&part) }.map(&:value) }
  end

  get "tx/:id" do
    DB.transaction do
      order = Order.create(id: params[:id], item: "book")
      order.update(state: "paid")
    end
    REDIS.multi { |m| m.del("item:#{params[:id]}"); m.incr("sold:#{params[:id]}") }
    { leaf: leaf("ship") }
  end

  get "nest/:id" do
    REDIS.incr("seen:#{params[:id]}")
    back = Thread.new { fetch("#{BACK}/seq/#{params[:id]}") }
    { price: leaf("price"), back: back.value }
  end

  get "work/:id" do
    { parts: WORKERS.run(-> { leaf("print") }, -> { item }, -> { leaf("pack") }) }
  end

  get "retry/:id" do
    2.times do |attempt|
      break Excon.get("#{LEAF}/try#{attempt}/#{params[:id]}", read_timeout: 0.015)
    rescue Excon::Error::Timeout
      next
    end
    { leaf: leaf("last") }
  end
end

run Shop
