"""Ruby: Sinatra, Rails and Grape on Puma, with packages of the system."""

import dataclasses

from stack import QUEUES, THREADS, App, Stack
from stacks.go import go

ROUTES = ("seq", "par", "tx", "nest", "deep", "later", "stream")


def puma(*options, **env):
    command = ["puma", "-q", "-b", "tcp://127.0.0.1:{port}", "-e", "production", *options, "{here}/ruby/config.ru"]
    return App(
        command,
        env,
        programs=("puma",),
        packages=("ruby-sinatra", "ruby-concurrent", "ruby-redis", "ruby-pg", "ruby-sequel"),
    )


# Threads of Puma, and at most as many as Rails' template has.
RAILS = App(
    ["puma", "-q", "-b", "tcp://127.0.0.1:{port}", "-e", "production", "-t", "5:5", "{here}/ruby/rails.ru"],
    {"RAILS_ENV": "production"},
    programs=("puma",),
    packages=(
        *("ruby-railties", "ruby-activejob", "ruby-activerecord"),
        *("ruby-faraday", "ruby-typhoeus", "ruby-redis", "ruby-pg"),
    ),
)
GRAPE = App(
    ["puma", "-q", "-b", "tcp://127.0.0.1:{port}", "-e", "production", "-t", "0:16", "{here}/ruby/grape.ru"],
    programs=("puma",),
    packages=("ruby-grape", "ruby-excon", "ruby-sequel", "ruby-connection-pool", "ruby-redis", "ruby-pg"),
)

SIDEKIQ_PACKAGES = ("ruby-sinatra", "ruby-sidekiq", "ruby-pg")
SIDEKIQ_FRONT = App(
    ["puma", "-q", "-b", "tcp://127.0.0.1:{port}", "-e", "production", "-t", "8:8", "{here}/ruby/sidekiq_front.ru"],
    programs=("puma",),
    packages=SIDEKIQ_PACKAGES,
)
SIDEKIQ = dataclasses.replace(
    SIDEKIQ_FRONT, command=["sidekiq", "-c", "4", "-r", "{here}/ruby/sidekiq_jobs.rb"], programs=("sidekiq",)
)

STACKS = {
    "sinatra": Stack(
        "Ruby: Sinatra on Puma, Sequel, redis-rb, Net::HTTP in front of Go's net/http",
        puma(),
        THREADS,
        routes=ROUTES,
        back=go("nethttp"),
    ),
    "sinatra-workers": Stack(
        "Ruby: Sinatra on Puma with two workers and kept connections, in front of Sinatra with one",
        puma("-w", "2", "-t", "8:8", KEEP="on"),
        THREADS,
        routes=ROUTES,
        back=puma("-t", "1:16"),
    ),
    "rails": Stack(
        "Ruby: Rails on Puma with five threads, Active Record, Faraday, Typhoeus, Active Job in front of Grape",
        RAILS,
        THREADS,
        routes=ROUTES,
        back=GRAPE,
    ),
    "grape": Stack(
        "Ruby: Grape on Puma, Sequel's models, Excon, redis-rb, workers at a queue in front of Rails",
        GRAPE,
        THREADS,
        routes=("seq", "par", "tx", "nest", "work", "retry"),
        back=RAILS,
    ),
    "sidekiq": Stack(
        "Ruby: Sinatra on Puma gives jobs to Sidekiq by Redis",
        SIDEKIQ_FRONT,
        QUEUES,
        routes=("job", "chain", "later", "retry"),
        jobs=SIDEKIQ,
    ),
}
