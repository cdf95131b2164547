import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Shipments of the shop through Kafka. Only in the demo: it keeps no ground truth.
 *
 * <p>As "shipping": POST /shipments/ORDER produces a record; what comes before Kafka is there waits for it. As
 * "warehouse": fetches the records and notes each in Redis. Configured by the environment: KAFKA, and LISTEN or REDIS
 * (host:port). Written for Java 11.
 */
public final class Shipping {
    private static final String TOPIC = "shipments";
    private static final List<ProducerRecord<String, String>> EARLY = new ArrayList<>();
    private static volatile KafkaProducer<String, String> producer;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("warehouse")) {
            warehouse();
        } else {
            shipping();
        }
    }

    private static Properties kafka() {
        Properties p = new Properties();
        p.put("bootstrap.servers", System.getenv("KAFKA"));
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        p.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("reconnect.backoff.max.ms", "500");
        return p;
    }

    private static InetSocketAddress address(String name) {
        String[] parts = System.getenv(name).split(":");
        return new InetSocketAddress(parts[0], Integer.parseInt(parts[1]));
    }

    private static void shipping() throws IOException {
        Thread connecting = new Thread(() -> {
            KafkaProducer<String, String> made = new KafkaProducer<>(kafka());
            while (true) {
                try {
                    made.partitionsFor(TOPIC); // Kafka makes it when it is asked for it
                    synchronized (EARLY) {
                        producer = made;
                        EARLY.forEach(made::send);
                    }
                    return;
                } catch (RuntimeException e) {
                    // not there yet
                }
            }
        });
        connecting.setDaemon(true);
        connecting.start();
        InetSocketAddress listen = address("LISTEN");
        try (ServerSocket server = new ServerSocket(listen.getPort(), 1024, listen.getAddress())) {
            while (true) {
                Socket caller = server.accept();
                caller.setTcpNoDelay(true);
                Thread thread = new Thread(() -> serve(caller), "shipping-worker");
                thread.setDaemon(true);
                thread.start();
            }
        }
    }

    private static void serve(Socket caller) {
        try (Socket socket = caller) {
            InputStream in = new BufferedInputStream(socket.getInputStream());
            for (String request = Lines.next(in); request != null; request = Lines.next(in)) {
                int length = 0;
                for (String header = Lines.next(in); header != null && !header.isEmpty(); header = Lines.next(in)) {
                    if (header.toLowerCase().startsWith("content-length:")) {
                        length = Integer.parseInt(header.substring(15).trim());
                    }
                }
                String body = new String(in.readNBytes(length), StandardCharsets.UTF_8);
                String[] words = request.split(" ");
                String order = words.length > 1 ? words[1].substring(words[1].lastIndexOf('/') + 1) : "";
                ProducerRecord<String, String> shipment = new ProducerRecord<>(TOPIC, 0, order, body);
                if (!early(shipment)) {
                    producer.send(shipment).get(10, TimeUnit.SECONDS);
                }
                socket.getOutputStream()
                    .write("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
            }
        } catch (Exception e) {
            // the caller or Kafka went away
        }
    }

    /** Keeps what comes before Kafka is there. */
    private static boolean early(ProducerRecord<String, String> shipment) {
        synchronized (EARLY) {
            return producer == null && EARLY.add(shipment);
        }
    }

    private static void warehouse() throws IOException, InterruptedException {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(kafka()); Socket redis = new Socket()) {
            InetSocketAddress to = address("REDIS");
            redis.connect(to);
            redis.setTcpNoDelay(true);
            InputStream in = new BufferedInputStream(redis.getInputStream());
            while (!exists(consumer)) {
                Thread.sleep(200);
            }
            TopicPartition where = new TopicPartition(TOPIC, 0);
            consumer.assign(List.of(where));
            consumer.seekToBeginning(List.of(where));
            while (true) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    String key = "shipped:" + record.key();
                    String command = "*3\r\n$3\r\nSET\r\n$" + key.length() + "\r\n" + key + "\r\n$1\r\n1\r\n";
                    redis.getOutputStream().write(command.getBytes(StandardCharsets.US_ASCII));
                    Lines.next(in);
                }
            }
        }
    }

    private static boolean exists(KafkaConsumer<String, String> consumer) {
        try {
            return consumer.listTopics(Duration.ofSeconds(2)).containsKey(TOPIC);
        } catch (RuntimeException e) {
            return false;
        }
    }
}
