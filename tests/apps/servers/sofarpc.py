"""SOFARPC in Java, both ends (Bolt, hessian2, no registry)."""

from stage import JavaOrders


class Sofarpc(JavaOrders):
    protocol = "sofarpc"
    port = 12200
    folder, main = "sofa", "Sofa"
    service = "Orders:1.0"  # with its version, as the header has it
    options = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)
    files = ("sofa/sofa-rpc-all-*.jar", "sofa-classes/Orders.class")
    also = ("sofarpc heartbeat",)
