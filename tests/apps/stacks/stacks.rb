# A server that says in which functions it waits or runs: before it does, it writes its own stack to FILE.truth.
#
# usage: stacks.rb PORT      answers GET /WHAT/MILLISECONDS; FILE is this file
# Loaded by another program (puma.ru), it serves nothing.

IS_SERVER = $PROGRAM_NAME == __FILE__

# Ruby reads the size of the stacks of its threads when it starts.
if IS_SERVER && !ENV["RUBY_THREAD_VM_STACK_SIZE"]
  ENV["RUBY_THREAD_VM_STACK_SIZE"] = "16777216"
  exec(RbConfig.ruby, __FILE__, *ARGV)
end

require "json"
require "socket"

# Writes the stack of the caller, innermost first, as far as it goes.
def stack(path)
  frames = caller_locations(1).map { |at| "#{at.label} (#{File.basename(at.path)}:#{at.lineno})" }
  File.write("#{__FILE__}.truth", JSON.generate([path, frames]) + "\n", mode: "a")
end

def sleep_work(path, ms)
  stack(path); sleep(ms / 1000.0)
end

# Methods, blocks, lambdas and what is called through functions in C.
class Shop
  def initialize
    @lock = Mutex.new
  end

  def lock_work(path, ms)
    queue = Queue.new
    holder = Thread.new { @lock.synchronize { queue << 1; sleep(ms / 1000.0) } }
    queue.pop
    stack(path); @lock.lock
    @lock.unlock
    holder.join
  end

  def deep(path, ms, levels = 100)
    levels.zero? ? sleep_work(path, ms) : deep(path, ms, levels - 1)
  end

  def each_work(path, ms)
    [1].each { |_| { a: 1 }.map { sleep_work(path, ms) } }
  end

  def sorted(path, ms)
    [1].sort_by { |_| sleep_work(path, ms); 0 }
  end

  def café(path, ms)
    sleep_work(path, ms)
  end

  def rescued(path, ms)
    raise "no"
  rescue RuntimeError
    begin
      sleep_work(path, ms)
    ensure
      ms += 1
    end
  end

  define_method(:defined) do |path, ms|
    ->(n) { sleep_work(path, n) }.call(ms)
  end

  def method_missing(name, path, ms)
    name == :unknown ? sleep_work(path, ms) : super
  end

  def respond_to_missing?(name, _ = false) = name == :unknown

  def self.of_class(path, ms)
    sleep_work(path, ms)
  end

  def fiber(path, ms)
    Fiber.new { sleep_work(path, ms) }.resume
  end

  def long(path, ms)
    a = [1, 2, 3, 4, 5].map { |n| n * 2 }.select(&:even?).reject(&:zero?)
    b = { one: a[0], two: a[1], three: a[2] }.transform_values { |n| n.to_s + "x" }
    c = a.zip(b.values).flatten.compact.map(&:to_s).join(",") + b.keys.map(&:to_s).join(",")
    if c.length > 3
      sleep_work(path, ms)
    end
    c.length + a.length + b.length
  end

  def read_work(path, ms)
    from, to = IO.pipe
    writer = Thread.new { sleep(ms / 1000.0); to.write("x") }
    stack(path); from.read(1)
    writer.join
  end

  def spin_work(path, ms)
    stack(path)
    till = Process.clock_gettime(Process::CLOCK_MONOTONIC) + ms / 1000.0
    n = 0
    n += 1 while Process.clock_gettime(Process::CLOCK_MONOTONIC) < till
    n
  end
end

SHOP = Shop.new
WORK = {
  "sleep" => method(:sleep_work),
  "lock" => SHOP.method(:lock_work),
  "deep" => SHOP.method(:deep),
  "each" => SHOP.method(:each_work),
  "sorted" => SHOP.method(:sorted),
  "letters" => SHOP.method(:café),
  "rescued" => SHOP.method(:rescued),
  "defined" => SHOP.method(:defined),
  "missing" => ->(path, ms) { SHOP.unknown(path, ms) },
  "class" => Shop.method(:of_class),
  "fiber" => SHOP.method(:fiber),
  "long" => SHOP.method(:long),
  "read" => SHOP.method(:read_work),
  "recursion" => ->(path, ms) { SHOP.deep(path, ms, 10_000) },
  "spin" => SHOP.method(:spin_work),
}

def handle(connection)
  request = connection.gets
  return if request.nil?
  while (line = connection.gets) && line != "\r\n"; end
  path = request.split(" ")[1]
  what, ms = path.split("/")[1, 2]
  WORK[what].call(path, ms.to_i)
  connection.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
ensure
  connection.close
end

if IS_SERVER
  listener = TCPServer.new("127.0.0.1", ARGV[0].to_i)
  loop { Thread.new(listener.accept) { |connection| handle(connection) } }
end
