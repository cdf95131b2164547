# Rails on Puma, an application in one file: Active Record on pg, its cache in Redis, Faraday, Typhoeus, Active Job.
require "rails"
require "action_controller/railtie"
require "active_job/railtie"
require "active_record/railtie"
require "faraday"
require "typhoeus"

LEAF, BACK = ENV.values_at("LEAF_URL", "BACK_URL")
ENV["DATABASE_URL"] += "?pool=16&prepared_statements=true"

class Field < Rails::Application
  config.root = __dir__
  config.eager_load = true
  config.consider_all_requests_local = false
  config.secret_key_base = "field"
  config.logger = Logger.new($stderr)
  config.log_level = :warn
  config.cache_store = :redis_cache_store, { url: "redis://127.0.0.1:#{ENV["REDIS_PORT"]}", pool_size: 16 }
  config.active_job.queue_adapter = :async
  config.hosts.clear
end

class ApplicationRecord < ActiveRecord::Base
  self.abstract_class = true
end

class Item < ApplicationRecord
end

class Order < ApplicationRecord
end

class ReportJob < ActiveJob::Base
  def perform(id)
    Item.where(id: id).update_all("stock = stock - 1")
    Rails.cache.write("job:#{id}", "done")
    Faraday.get("#{LEAF}/mail/#{id}")
  end
end

class ShopController < ActionController::API
  def seq
    cached = Rails.cache.read("item:#{id}")
    item = Item.find_by(id: id)
    price = Faraday.get("#{LEAF}/price/#{id}").body
    Rails.cache.write("item:#{id}", item.to_json, expires_in: 60)
    render json: { id: id, cached: cached, item: item, price: price }
  end

  # Threads of concurrent-ruby's pool.
  def par
    parts = [
      -> { Rails.cache.read("item:#{id}") },
      -> { Item.find_by(id: id) },
      -> { Faraday.get("#{LEAF}/price/#{id}").body },
      -> { Faraday.get("#{LEAF}/stock/#{id}").body },
    ].map { |part| Concurrent::Promises.future { Rails.application.executor.wrap(&part) } }
    render json: { id: id, parts: Concurrent::Promises.zip(*parts).value! }
  end

  def tx
    Order.transaction do
      order = Order.create!(id: id, item: "book", state: "new")
      order.update!(state: "paid")
    end
    Rails.cache.delete("item:#{id}")
    render json: { id: id, leaf: Faraday.get("#{LEAF}/ship/#{id}").body }
  end

  # Two calls of libcurl at once, in the request's own thread.
  def nest
    seen = Rails.cache.increment("seen:#{id}")
    render json: { id: id, seen: seen, parts: at_once("#{BACK}/seq/#{id}", "#{LEAF}/price/#{id}") }
  end

  # Five calls, two at a time.
  def deep
    parts = at_once(*5.times.map { |i| "#{LEAF}/part#{i}/#{id}" }, limit: 2)
    render json: { id: id, parts: parts, item: Item.find_by(id: id) }
  end

  def later
    ReportJob.perform_later(id)
    render json: { id: id, detail: "accepted" }
  end

  private

  def id = params[:id]

  def at_once(*urls, limit: 10)
    hydra = Typhoeus::Hydra.new(max_concurrency: limit)
    requests = urls.map { |url| Typhoeus::Request.new(url) }
    requests.each { |request| hydra.queue(request) }
    hydra.run
    requests.map { |request| request.response.body }
  end
end

# Live runs its actions in threads of their own.
class StreamsController < ActionController::API
  include ActionController::Live

  def show
    id = params[:id]
    response.stream.write(Item.find_by(id: id).to_json)
    response.stream.write(Faraday.get("#{LEAF}/price/#{id}").body)
    response.stream.write(Rails.cache.read("item:#{id}").to_s)
  ensure
    response.stream.close
  end
end

Field.initialize!
Field.routes.draw do
  %w[seq par tx nest deep later].each { |name| get "/#{name}/:id", to: "shop##{name}" }
  get "/stream/:id", to: "streams#show"
end

run Field
