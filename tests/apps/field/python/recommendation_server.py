"""Recommendations of the astronomy shop: a gRPC server with a pool of threads, which asks the catalogue by gRPC."""

import os
from concurrent.futures import ThreadPoolExecutor

import grpc

protos, services = grpc.protos_and_services("shop.proto")
channel = grpc.insecure_channel(os.environ["CATALOG_URL"].removeprefix("http://"))
catalog = services.ShopStub(channel)


class Recommendation(services.ShopServicer):
    def Seq(self, request, context):
        # The header tells the comparison for which request a call is.
        found = catalog.Seq(protos.Item(id=request.id), metadata=(("x-item", request.id),))
        return protos.Reply(text=f"more like {found.text}")


server = grpc.server(ThreadPoolExecutor(10))
services.add_ShopServicer_to_server(Recommendation(), server)
server.add_insecure_port(f"127.0.0.1:{os.environ['PORT']}")
server.start()
server.wait_for_termination()
