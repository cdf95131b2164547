# The functions of stacks.rb (beside this file) behind Puma and its pool of threads; of `/shared/MS`, one request at a
# time has the lock.
require_relative "stacks"

SHARED = Mutex.new

run(lambda do |env|
  path = env["PATH_INFO"]
  what, ms = path.split("/")[1, 2]
  if what == "shared"
    SHARED.synchronize { sleep_work(path, ms.to_i) }
  else
    WORK[what].call(path, ms.to_i)
  end
  [200, { "Content-Length" => "2" }, ["ok"]]
end)
