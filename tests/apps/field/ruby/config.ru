# Sinatra on Puma: a pool of Sequel over pg, a pool of redis-rb, Net::HTTP, and threads or concurrent-ruby's futures.
require "concurrent"
require "connection_pool"
require "json"
require "net/http"
require "redis"
require "sequel"
require "sinatra/base"

LEAF, BACK = ENV.values_at("LEAF_URL", "BACK_URL")
REDIS = ConnectionPool.new(size: 16) { Redis.new(port: ENV["REDIS_PORT"].to_i) }
DB = Sequel.connect(ENV["DATABASE_URL"].sub("postgresql", "postgres"), max_connections: 16)
HTTP = ENV["KEEP"] == "on" ? ConnectionPool.new(size: 32) { {} } : nil

class Shop < Sinatra::Base
  configure do
    set :environment, :production
    disable :logging, :protection
  end

  helpers do
    def redis(&block) = REDIS.with(&block)

    # One connection for each call as Net::HTTP.get has it, or kept connections in a pool.
    def fetch(url)
      uri = URI(url)
      return Net::HTTP.get(uri) unless HTTP

      HTTP.with do |kept|
        http = kept[uri.port] ||= Net::HTTP.start(uri.host, uri.port)
        http.get(uri.path).body
      end
    end

    def item(id) = DB[:items].where(id: id).first
  end

  before { content_type :json }

  get "/seq/:id" do |id|
    cached = redis { |r| r.get("item:#{id}") }
    row = item(id)
    price = fetch("#{LEAF}/price/#{id}")
    redis { |r| r.set("item:#{id}", row.to_json, ex: 60) }
    { id: id, cached: cached, row: row, price: price }.to_json
  end

  get "/par/:id" do |id|
    parts = [
      Thread.new { redis { |r| r.get("item:#{id}") } },
      Thread.new { item(id) },
      Thread.new { fetch("#{LEAF}/price/#{id}") },
      Thread.new { fetch("#{LEAF}/stock/#{id}") },
    ]
    { id: id, parts: parts.map(&:value) }.to_json
  end

  get "/tx/:id" do |id|
    DB.transaction do
      DB[:orders].insert(id: id, item: "book")
      DB[:orders].where(id: id).update(state: "paid")
    end
    redis { |r| r.pipelined { |p| p.del("item:#{id}"); p.incr("sold:#{id}") } }
    { id: id, leaf: fetch("#{LEAF}/ship/#{id}") }.to_json
  end

  get "/nest/:id" do |id|
    redis { |r| r.incr("seen:#{id}") }
    back = Thread.new { fetch("#{BACK}/seq/#{id}") }
    price = fetch("#{LEAF}/price/#{id}")
    { id: id, back: back.value, price: price }.to_json
  end

  get "/deep/:id" do |id|
    parts = Concurrent::Promises.zip(
      Concurrent::Promises.future { item(id) },
      Concurrent::Promises.future { fetch("#{LEAF}/part0/#{id}") }.then { |_| fetch("#{LEAF}/part1/#{id}") },
    ).value!
    redis { |r| r.get("item:#{id}") }
    { id: id, parts: parts }.to_json
  end

  get "/later/:id" do |id|
    Thread.new do
      sleep 0.001
      DB[:items].where(id: id).update(stock: 1)
      redis { |r| r.set("job:#{id}", "done") }
      fetch("#{LEAF}/mail/#{id}")
    end
    { id: id, detail: "accepted" }.to_json
  end

  get "/stream/:id" do |id|
    stream do |out|
      out << item(id).to_json
      out << fetch("#{LEAF}/price/#{id}")
      out << redis { |r| r.get("item:#{id}") }.to_s
    end
  end
end

run Shop
