# Sinatra on Puma that gives work to Sidekiq: at once, in a chain, later, and with a retry.
require "sinatra/base"
require_relative "sidekiq_jobs"

class Shop < Sinatra::Base
  configure do
    set :environment, :production
    disable :logging, :protection
  end

  get("/job/:id") { |id| Ship.perform_async(id) }
  get("/chain/:id") { |id| Pack.perform_async(id) }
  get("/later/:id") { |id| Ship.perform_in(0.5, id) }
  get("/retry/:id") { |id| Pay.perform_async(id) }
end

run Shop
