"""Dubbo in Java, both ends (hessian2, no registry)."""

from stage import JavaOrders


class Dubbo(JavaOrders):
    protocol = "dubbo"
    port = 20880
    folder, main = "dubbo", "Dubbo"
    service = "Orders"
    options = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)
    files = ("dubbo/dubbo-3*.jar", "dubbo-classes/Orders.class")
    also = ("dubbo $heartbeat",)
