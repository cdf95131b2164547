# Jobs of Sidekiq: one that calls a database and the leaf, one that asks for another, one that fails at first.
require "net/http"
require "pg"
require "sidekiq"

REDIS_URL = "redis://127.0.0.1:#{ENV["REDIS_PORT"]}/2"
Sidekiq.configure_client { |config| config.redis = { url: REDIS_URL } }
Sidekiq.configure_server do |config|
  config.redis = { url: REDIS_URL }
  config.options[:poll_interval_average] = 1 # seconds between two looks for jobs that are due
end

def fetch(path) = Net::HTTP.get(URI("#{ENV["LEAF_URL"]}#{path}"))

class Ship
  include Sidekiq::Job

  def perform(id)
    connection = PG.connect(ENV["DATABASE_URL"])
    connection.exec_params("INSERT INTO orders (id, item) VALUES ($1, $2)", [id, "book"])
    connection.close
    fetch("/ship/#{id}")
  end
end

class Pack
  include Sidekiq::Job

  def perform(id)
    fetch("/pack/#{id}")
    Ship.perform_async(id)
  end
end

class Pay
  include Sidekiq::Job
  sidekiq_retry_in { 1 }

  FAILED = {}

  def perform(id)
    fetch("/pay/#{id}")
    raise "try again" unless FAILED.delete(id) || !(FAILED[id] = true)
  end
end
