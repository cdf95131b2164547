"""Mosquitto, MQTT 3.1.1 and 5: connecting with a password, subscribing, publishing with each quality of service."""

import queue
import threading

from stage import Server


class Mosquitto(Server):
    protocol = "mqtt"
    port = 1883
    programs = ("mosquitto", "mosquitto_passwd")
    modules = ("paho.mqtt.client",)

    def start(self):
        import subprocess

        passwords = self.work / "passwords"
        subprocess.run(
            ["mosquitto_passwd", "-b", "-c", passwords, "boss", self.secret("pass")],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        passwords.chmod(0o600)
        conf = self.file(
            "mosquitto.conf",
            f"listener {self.port} 127.0.0.1\nallow_anonymous false\npassword_file {passwords}\nuser "
            "root\nlog_type error\n",
        )
        self.spawn("mosquitto", "-c", conf)

    def open(self):
        import paho.mqtt.client as mqtt

        self.count = getattr(self, "count", 0) + 1
        version = mqtt.MQTTv5 if self.count % 2 else mqtt.MQTTv311
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"client-{self.count}", protocol=version)
        client.username_pw_set("boss", self.secret("pass"))
        connected, client.subscribed, client.got = threading.Event(), threading.Event(), queue.Queue()
        client.on_connect = lambda *_: connected.set()
        client.on_subscribe = lambda *_: client.subscribed.set()
        client.on_message = lambda _c, _u, message: client.got.put(message.payload)
        client.connect("127.0.0.1", self.port, keepalive=600)
        client.loop_start()
        assert connected.wait(10)
        return client

    def close(self, client):
        with self.call("DISCONNECT", status="one-way"):
            client.disconnect()
            client.loop_stop()

    def end_port(self, client):
        return client.socket().getsockname()[1]

    def warm(self, client):
        client.publish("warm", "x", qos=1).wait_for_publish(10)

    def greet(self, client):
        self.opened("CONNECT")

    def use(self, client):
        topic = f"shop/orders/{self.end_port(client)}"
        with self.call("SUBSCRIBE", topic):
            client.subscribe(topic, qos=1)
            assert client.subscribed.wait(10)
        for qos in (0, 1, 2):
            status = "ok" if qos else "one-way"
            with self.call("PUBLISH", topic, status) as record:
                client.publish(topic, self.secret("message") * (1 + 500 * qos), qos=qos).wait_for_publish(10)
                assert client.got.get(timeout=10)
                # The broker sends it on, with the subscription's quality at most.
                self.also_seen(record)
                if qos == 2:
                    self.also_seen(record, operation="PUBREL", target="")
