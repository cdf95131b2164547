import java.io.BufferedInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The carts of the shop, kept in Redis: HTTP/1.1 by hand, one thread and one Redis connection per caller's connection.
 *
 * <p>GET /carts/USER: HKEYS. POST /carts/USER {"item":"7","count":1}: HINCRBY, then EXPIRE. DELETE /carts/USER: DEL.
 *
 * <p>Configured by the environment: LISTEN, REDIS (host:port) and GROUND_TRUTH_DIR. Written for Java 11.
 */
public final class Cart {
    private static final Pattern ITEM = Pattern.compile("\"item\"\\s*:\\s*\"(\\d+)\"");
    private static final AtomicLong NUMBER = new AtomicLong();
    private static FileOutputStream truth;

    private final Socket caller;
    private Socket redis;
    private InputStream redisIn;
    private String current;

    private Cart(Socket caller) {
        this.caller = caller;
    }

    public static void main(String[] args) throws IOException {
        truth = new FileOutputStream(Path.of(System.getenv("GROUND_TRUTH_DIR"), "cart.jsonl").toFile(), true);
        InetSocketAddress listen = address("LISTEN");
        try (ServerSocket server = new ServerSocket(listen.getPort(), 1024, listen.getAddress())) {
            while (true) {
                Socket caller = server.accept();
                caller.setTcpNoDelay(true);
                Thread thread = new Thread(() -> new Cart(caller).serve(), "cart-worker");
                thread.setDaemon(true);
                thread.start();
            }
        }
    }

    private static InetSocketAddress address(String name) {
        String[] parts = System.getenv(name).split(":");
        return new InetSocketAddress(parts[0], Integer.parseInt(parts[1]));
    }

    private static String nextId() {
        return "cart-" + NUMBER.incrementAndGet();
    }

    private static long now() {
        Instant t = Instant.now();
        return t.getEpochSecond() * 1_000_000_000L + t.getNano();
    }

    private static String ends(Socket socket) {
        InetAddress local = socket.getLocalAddress();
        return String.format("\"local\":\"%s:%d\",\"peer\":\"%s:%d\"", local.getHostAddress(), socket.getLocalPort(),
                socket.getInetAddress().getHostAddress(), socket.getPort());
    }

    /** Appends one record in one write: nothing is lost when the process is ended. */
    private static void note(String fields) throws IOException {
        byte[] line = ("{\"service\":\"cart\"," + fields + "}\n").getBytes(StandardCharsets.UTF_8);
        synchronized (truth) {
            truth.write(line);
        }
    }

    private void serve() {
        try (Socket socket = caller) {
            InputStream in = new BufferedInputStream(socket.getInputStream());
            while (one(in)) {
            }
        } catch (IOException e) {
            // the caller went away
        } finally {
            try {
                if (redis != null) {
                    redis.close();
                }
            } catch (IOException e) {
                // nothing is lost with it
            }
        }
    }

    /** Serves one request; false at the end of the connection. */
    private boolean one(InputStream in) throws IOException {
        String line = Lines.next(in);
        if (line == null) {
            return false;
        }
        long start = now();
        String[] words = line.split(" ");
        int length = 0;
        for (String header = Lines.next(in); header != null && !header.isEmpty(); header = Lines.next(in)) {
            if (header.toLowerCase().startsWith("content-length:")) {
                length = Integer.parseInt(header.substring(15).trim());
            }
        }
        String body = new String(in.readNBytes(length), StandardCharsets.UTF_8);
        current = nextId();
        int status = 404;
        String answer = "{\"error\":\"no such page\"}";
        if (words.length == 3 && words[1].startsWith("/carts/")) {
            String key = "cart:" + words[1].substring(7);
            Matcher item = ITEM.matcher(body);
            if (words[0].equals("GET")) {
                status = 200;
                answer = keys(command("HKEYS", key));
            } else if (words[0].equals("DELETE")) {
                command("DEL", key);
                status = 204;
                answer = "";
            } else if (words[0].equals("POST") && item.find()) {
                String count = command("HINCRBY", key, item.group(1), "1").get(0);
                command("EXPIRE", key, "600");
                status = 200;
                answer = "{\"count\":" + count + "}";
            } else {
                status = 400;
                answer = "{\"error\":\"an item is needed\"}";
            }
        }
        byte[] bytes = answer.getBytes(StandardCharsets.UTF_8);
        String head = "HTTP/1.1 " + status + " Status\r\nContent-Type: application/json\r\n"
                + (status == 204 ? "" : "Content-Length: " + bytes.length + "\r\n") + "\r\n";
        OutputStream out = caller.getOutputStream();
        out.write(head.getBytes(StandardCharsets.US_ASCII));
        if (bytes.length > 0) {
            out.write(bytes);
        }
        note(String.format("\"kind\":\"server\",\"id\":\"%s\",%s,\"start\":%d,\"end\":%d,"
            + "\"protocol\":\"http\",\"operation\":\"%s\",\"target\":\"%s\",\"status\":%d",
                current, ends(caller), start, now(), words[0], words.length > 1 ? words[1] : "", status));
        return true;
    }

    private static String keys(List<String> items) {
        return items.isEmpty() ? "[]" : "[\"" + String.join("\",\"", items) + "\"]";
    }

    /** One Redis command: its answer as a list of strings (one for a plain answer). */
    private List<String> command(String... words) throws IOException {
        if (redis == null) {
            InetSocketAddress to = address("REDIS");
            redis = new Socket(to.getAddress(), to.getPort());
            redis.setTcpNoDelay(true);
            redisIn = new BufferedInputStream(redis.getInputStream());
        }
        StringBuilder request = new StringBuilder("*" + words.length + "\r\n");
        for (String word : words) {
            request.append('$').append(word.length()).append("\r\n").append(word).append("\r\n");
        }
        long start = now();
        redis.getOutputStream().write(request.toString().getBytes(StandardCharsets.US_ASCII));
        String head = Lines.next(redisIn);
        if (head == null || head.isEmpty()) {
            throw new IOException("redis went away");
        }
        List<String> answer = new ArrayList<>();
        if (head.charAt(0) == '*') {
            for (int n = Integer.parseInt(head.substring(1)); n > 0; n--) {
                answer.add(bulk(Lines.next(redisIn)));
            }
        } else {
            answer.add(head.charAt(0) == '$' ? bulk(head) : head.substring(1));
        }
        note(String.format("\"kind\":\"client\",\"id\":\"%s\",\"in\":\"%s\",%s,\"start\":%d,\"end\":%d,"
            + "\"protocol\":\"redis\",\"operation\":\"%s\",\"target\":\"\",\"status\":%d",
                nextId(), current, ends(redis), start, now(), words[0], head.charAt(0) == '-' ? 1 : 0));
        return answer;
    }

    private String bulk(String head) throws IOException {
        int length = Integer.parseInt(head.substring(1));
        if (length < 0) {
            return "";
        }
        String value = new String(redisIn.readNBytes(length), StandardCharsets.UTF_8);
        redisIn.readNBytes(2);
        return value;
    }
}
