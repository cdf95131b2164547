# A service of a shape, in Ruby behind Puma; README.md has the environment. The thread that Puma's pool gives a request makes
# its calls, over connections of its own.
require "json"
require "securerandom"
require "socket"

SERVICE = ENV.fetch("SERVICE")
PORT = Integer(ENV.fetch("LISTEN").split(":")[1])
UPSTREAMS = ENV.fetch("CALLS", "").split(",").map { |a| [a.split(":")[0], Integer(a.split(":")[1])] }
TRUTH = File.open(File.join(ENV.fetch("GROUND_TRUTH_DIR"), "#{SERVICE}.jsonl"), "a")

def now
  Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
end

# One line in one write: nothing is lost when the process is ended.
def note(kind, target, start, status, more)
  record = { service: SERVICE, kind: kind, target: target, start: start, end: now, status: status, **more }
  TRUTH.syswrite("#{JSON.generate(record)}\n")
end

# What a request makes its service call, by its path alone: upstream and load.
def calls(path)
  load = Integer(path.split("/")[2])
  UPSTREAMS.each_index.flat_map { |u| (0..(load >> u & 1)).map { |i| [u, (load + i + 1) % 4] } }
end

def call(upstream, load, inside)
  path = "/work/#{load}/#{SecureRandom.hex(6)}"
  start = now
  connections = (Thread.current[:connections] ||= {})
  socket = connections[upstream] ||= TCPSocket.new(*UPSTREAMS[upstream]).tap { |s| s.setsockopt(:TCP, :NODELAY, true) }
  socket.write("GET #{path} HTTP/1.1\r\nHost: shapes\r\n\r\n")
  status = Integer(socket.gets("\r\n").split(" ")[1])
  length = 0
  while (line = socket.gets("\r\n").downcase) != "\r\n"
    length = Integer(line.split(":")[1]) if line.start_with?("content-length:")
    connections.delete(upstream) if line.start_with?("connection: close")
  end
  socket.read(length)
  socket.close unless connections[upstream]
  note("client", path, start, status, { port: UPSTREAMS[upstream][1], in: inside })
  status == 200
end

run(lambda do |env|
  start = now
  path = env["PATH_INFO"]
  status = calls(path).map { |upstream, load| call(upstream, load, path) }.all? ? 200 : 502
  note("server", path, start, status, { port: PORT })
  [status, { "Content-Length" => "2" }, ["ok"]]
end)
