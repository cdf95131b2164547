import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A service with a virtual thread for each connection and one carrier for all, whose requests await, compute, and are
 * kept from running by another virtual thread. Each says for how long: one JSON line for each request on standard
 * output, times in seconds.
 *
 * <p>usage: java -Djdk.virtualThreadScheduler.parallelism=1 -Djdk.virtualThreadScheduler.maxPoolSize=1 Service COUNT
 *
 * <p>Each request of /mix/N sleeps 40 ms, computes 40 ms, waits 30 ms for a lock, and lets a virtual thread go first
 * that keeps the carrier for 100 ms. That it is ready then is not seen from outside: it counts as awaiting.
 */
final class Service {
    private static final byte[] ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone".getBytes();

    private static void keep(long ms) {
        for (long until = System.nanoTime() + ms * 1_000_000; System.nanoTime() < until; ) {}
    }

    /** Computes for 40 ms; a longer gap between two readings of the clock is time in which it did not run. */
    private static long compute() {
        long ran = 0;
        for (long last = System.nanoTime(); ran < 40_000_000; ) {
            long now = System.nanoTime();
            ran += now - last < 100_000 ? now - last : 0;
            last = now;
        }
        return ran;
    }

    private static void hold(ReentrantLock lock, CountDownLatch held) {
        lock.lock();
        try {
            held.countDown();
            Thread.sleep(Duration.ofMillis(30));
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        } finally {
            lock.unlock();
        }
    }

    private static String work(String path) throws InterruptedException {
        long began = System.nanoTime();
        Thread.sleep(Duration.ofMillis(40));
        long awaited = System.nanoTime() - began;
        long ran = compute();
        ReentrantLock lock = new ReentrantLock();
        CountDownLatch held = new CountDownLatch(1);
        Thread.ofVirtual().start(() -> hold(lock, held));
        long asked = System.nanoTime();
        held.await();
        lock.lock();
        lock.unlock();
        Thread.ofVirtual().start(() -> keep(100));
        Thread.yield();
        awaited += System.nanoTime() - asked;
        double took = (System.nanoTime() - began) / 1e9;
        return String.format(
                Locale.ROOT,
                "{\"path\": \"%s\", \"ran\": %f, \"awaited\": %f, \"kept\": 0.0, \"took\": %f}",
                path,
                ran / 1e9,
                awaited / 1e9,
                took);
    }

    private static void serve(Socket caller) {
        try (caller) {
            BufferedReader in = new BufferedReader(new InputStreamReader(caller.getInputStream()));
            String path = "";
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (line.startsWith("GET ")) {
                    path = line.split(" ")[1];
                } else if (line.isEmpty()) {
                    String told = work(path);
                    caller.getOutputStream().write(ANSWER);
                    System.out.println(told);
                }
            }
        } catch (IOException | InterruptedException ended) {
            System.err.println(ended);
        }
    }

    private static void accept(ServerSocket listener) {
        try {
            while (true) {
                Socket caller = listener.accept();
                Thread.ofVirtual().start(() -> serve(caller));
            }
        } catch (IOException ended) {
            System.err.println(ended);
        }
    }

    /** Asks for one path after the other, by a connection that is kept and by new ones in turn. */
    private static void ask(int count, int port) throws IOException, InterruptedException {
        Socket kept = new Socket(InetAddress.getLoopbackAddress(), port);
        for (int n = 0; n < count; n++) {
            Socket server = n % 2 == 1 ? kept : new Socket(InetAddress.getLoopbackAddress(), port);
            server.getOutputStream().write(("GET /mix/" + n + " HTTP/1.1\r\nHost: a\r\n\r\n").getBytes());
            server.getInputStream().readNBytes(ANSWER.length);
            if (server != kept) {
                server.close();
            }
            Thread.sleep(20);
        }
        kept.close();
    }

    public static void main(String[] arguments) throws Exception {
        ServerSocket listener = new ServerSocket(0, 16, InetAddress.getLoopbackAddress());
        Thread.ofVirtual().start(() -> accept(listener));
        Thread.sleep(3_000); // until the machine is known
        ask(Integer.parseInt(arguments[0]), listener.getLocalPort());
        System.out.flush();
        System.exit(0);
    }
}
