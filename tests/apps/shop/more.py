"""Parts of the shop that run only when they are asked for: `run.py --with payment,shipping`.

payment   storefront ─HTTPS→ payment (Python) → PostgreSQL
shipping  storefront → shipping (Java) → Kafka → warehouse (Java) → redis

A part of which something is missing is left out, and said.
"""

import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
JARS = HERE.parents[2] / "target" / "servers" / "kafka"  # tests/apps/fetch/fetch.py kafka
CLUSTER = "wirespanwirespanwirespA"
JAVA = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Xss512k"]


def initdb():
    """Debian keeps the server's programs out of PATH, by version."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parent.parent.name))
    return found[-1] if found else (pathlib.Path(shutil.which("initdb")) if shutil.which("initdb") else None)


def missing(part):
    if part == "payment":
        lost = [] if initdb() else ["server of PostgreSQL (apt-get install postgresql)"]
        lost += [] if shutil.which("openssl") else ["openssl"]
    else:
        lost = [] if list(JARS.glob("kafka_2.13-*.jar")) else ["Kafka (tests/apps/fetch/fetch.py kafka)"]
    return ", no ".join(lost)


def build(build_folder, step):
    """Compiles shipping, if Kafka's jars are there; formats a log directory for Kafka once, to be copied."""
    if missing("shipping"):
        return
    step(
        "Shipping.class",
        ["Shipping.java", "Lines.java"],
        ["javac", "-d", build_folder, "-cp", f"{JARS}/*", "Shipping.java", "Lines.java"],
    )
    formatted = build_folder / "kafka"
    if not (formatted / "meta.properties").exists():
        shutil.rmtree(formatted, ignore_errors=True)
        conf = build_folder / "kafka.properties"
        conf.write_text(properties(formatted, 9092, 9093))
        subprocess.run(
            [*JAVA, "-cp", f"{JARS}/*", "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", conf],
            check=True,
            stdout=subprocess.DEVNULL,
        )


def properties(data, port, controller):
    return f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
num.network.threads=2
num.io.threads=2
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
"""


def payment(shop):
    """Starts PostgreSQL and payment; the storefront's settings."""
    bin_folder, data, keys = initdb().parent, shop.work / "postgres", shop.work / "payment"
    for folder in (data, keys):
        folder.mkdir(parents=True, exist_ok=True)
    user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
    if user:
        shutil.chown(data, user)
    if not (data / "PG_VERSION").exists():
        subprocess.run(
            [
                bin_folder / "initdb",
                "-D",
                data,
                "-U",
                "shop",
                "-A",
                "trust",
                "-N",
                "--no-instructions",
                "-E",
                "UTF8",
                "--locale=C",
            ],
            user=user,
            check=True,
            stdout=subprocess.DEVNULL,
            cwd="/",
            env={**os.environ, "HOME": str(data)},
        )
    options = {
        "listen_addresses": "127.0.0.1",
        "port": shop.ports["postgres"],
        "unix_socket_directories": "",
        "fsync": "off",
        "shared_buffers": "16MB",
        "max_connections": 300,
        "logging_collector": "off",
        "autovacuum": "off",
        "log_min_messages": "fatal",
    }
    shop.start(
        "postgres",
        [bin_folder / "postgres", "-D", data, *(f"-c{k}={v}" for k, v in options.items())],
        user=user,
        cwd="/",
    )
    certificate, key = keys / "certificate.pem", keys / "key.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=payment",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-out",
            certificate,
            "-keyout",
            key,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    shop.python(
        "payment",
        HERE / "payment.py",
        LISTEN=shop.at("payment"),
        POSTGRES=shop.at("postgres"),
        CERTIFICATE=str(certificate),
        KEY=str(key),
    )
    return {"PAYMENT": shop.at("payment"), "PAYMENT_CERTIFICATE": str(certificate)}


def shipping(shop, build_folder):
    """Starts Kafka, shipping and warehouse. They start slowly, so the shop does not wait for them."""
    data, conf = shop.work / "kafka", shop.work / "kafka.properties"
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(build_folder / "kafka", data)
    conf.write_text(properties(data, shop.ports["kafka"], shop.ports["controller"]))
    shop.start("kafka", [*JAVA, "-cp", f"{JARS}/*", "kafka.Kafka", conf])
    path = f"{build_folder}{os.pathsep}{JARS}/*"
    shop.start(
        "shipping", [*JAVA, "-cp", path, "Shipping", "shipping"], KAFKA=shop.at("kafka"), LISTEN=shop.at("shipping")
    )
    shop.start(
        "warehouse", [*JAVA, "-cp", path, "Shipping", "warehouse"], KAFKA=shop.at("kafka"), REDIS=shop.at("redis")
    )
