# Bookinfo's details of a product: WEBrick, and Net::HTTP to a service of books.
require "json"
require "net/http"
require "webrick"

LEAF = ENV["LEAF_URL"]
server = WEBrick::HTTPServer.new(BindAddress: "127.0.0.1", Port: ENV["PORT"].to_i, AccessLog: [])
trap("TERM") { server.shutdown }

server.mount_proc "/details" do |request, response|
  id = request.path.split("/").last
  book = Net::HTTP.get(URI("#{LEAF}/book/#{id}"))
  response["Content-Type"] = "application/json"
  response.body = { id: id, author: "William Shakespeare", year: 1595, book: book }.to_json
end

server.start
