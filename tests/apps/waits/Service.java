// A service whose requests wait in known ways, with a thread for each connection. It says how long each wait was: one
// JSON line for each request on standard output.
//
// usage: java Service PORT LEAF_PORT DIR
//
// Paths are /WHAT/MS/ID, as of service.c. `gc` asks for a collection of garbage, and `stopped` runs while another
// thread does. Of the two locks of the convoy, one is that of `synchronized`, the other of java.util.concurrent.
import com.sun.management.GarbageCollectorMXBean;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.Pipe;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Security;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

public class Service {
    static final long LINGER_MS = 1000;
    static final Object first = new Object();
    static final ReentrantLock second = new ReentrantLock();
    static final Semaphore pool = new Semaphore(1, true);
    static final List<GarbageCollectorMXBean> collectors =
        ManagementFactory.getPlatformMXBeans(GarbageCollectorMXBean.class);
    static Socket only;
    static FileChannel file;
    static int leaf;
    static byte[][] heap;

    final long ms;
    final List<String> waits = new ArrayList<>();

    Service(long ms) {
        this.ms = ms;
    }

    static double since(long began) {
        return (System.nanoTime() - began) / 1e9;
    }

    static long ran() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    /** How long this thread has been ready without a processor. */
    static long queued() throws IOException {
        return Long.parseLong(Files.readString(Path.of("/proc/thread-self/schedstat")).split(" ")[1]);
    }

    void waited(String kind, String by, String held, double took) {
        String form = "{\"kind\": \"%s\", \"by\": \"%s\", \"held\": \"%s\", \"took\": %.6f}";
        waits.add(String.format(Locale.ROOT, form, kind, by, held, took));
    }

    void spin() {
        for (long until = ran() + ms * 1_000_000; ran() < until; );
    }

    void ask(Socket socket) throws IOException {
        long began = System.nanoTime();
        socket.getOutputStream().write(("GET /sleep/" + ms + "/leaf HTTP/1.1\r\nHost: leaf\r\n\r\n").getBytes());
        if (socket.getInputStream().read(new byte[256]) <= 0) throw new IOException("the leaf does not answer");
        waited("socket", "network", "", since(began));
    }

    void askByPool() throws Exception {
        Thread.currentThread().setName("user");
        if (!pool.tryAcquire()) {
            long began = System.nanoTime();
            pool.acquire();
            waited("lock", "thread user", "socket ", since(began));
        }
        if (only == null) only = new Socket("127.0.0.1", leaf);
        ask(only);
        pool.release();
    }

    void sync() throws IOException {
        ByteBuffer bytes = ByteBuffer.allocateDirect(1 << 20);
        long end = System.nanoTime() + ms * 1_000_000, all = 0;
        do {
            file.write(bytes.rewind(), 0);
            long began = System.nanoTime();
            file.force(true);
            all += System.nanoTime() - began;
        } while (System.nanoTime() < end);
        waited("disk", "disk", "", all / 1e9);
    }

    interface Waiting {
        void run() throws Exception;
    }

    /** Waits while a thread with this name sleeps, and then does something. What an ended thread did is not known. */
    void until(Waiting helped, String name, Waiting waiting, String kind) throws Exception {
        Thread helper = new Thread(() -> {
            try {
                Thread.sleep(ms);
                helped.run();
                LockSupport.parkNanos(LINGER_MS * 1_000_000);
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }, name);
        helper.start();
        long began = System.nanoTime();
        waiting.run();
        waited(kind, "thread " + name, "sleep ", since(began));
    }

    static long collectedMs() {
        return collectors.stream().mapToLong(GarbageCollectorMXBean::getCollectionTime).sum();
    }

    static void fill() {
        heap = new byte[400_000][];
        for (int i = 0; i < heap.length; i++) heap[i] = new byte[100 + i % 100];
    }

    void collect() {
        fill();
        long began = System.nanoTime();
        System.gc();
        waited("runtime", "thread VM Thread", "", since(began));
        heap = null;
    }

    /** Runs until another thread has collected. */
    void stopped() throws InterruptedException {
        fill();
        long before = collectedMs();
        Thread collector = new Thread(System::gc, "collector");
        collector.start();
        while (collector.isAlive()) Thread.onSpinWait();
        waited("runtime", "thread VM Thread", "", (collectedMs() - before) / 1e3);
        heap = null;
    }

    void convoy() {
        Thread.currentThread().setName("middle");
        second.lock();
        long began = System.nanoTime();
        synchronized (first) {
            waited("lock", "thread keeper", "disk fsync", since(began));
        }
        second.unlock();
    }

    void work(String what) throws Exception {
        long began = System.nanoTime();
        switch (what) {
            case "spin" -> spin();
            case "sleep" -> {
                Thread.sleep(ms);
                waited("sleep", "timer", "", since(began));
            }
            case "call" -> {
                try (Socket socket = new Socket("127.0.0.1", leaf)) {
                    ask(socket);
                }
            }
            case "pool" -> askByPool();
            case "disk" -> sync();
            case "pipe" -> {
                Pipe pipe = Pipe.open();
                ByteBuffer one = ByteBuffer.allocateDirect(1), other = ByteBuffer.allocateDirect(1);
                until(() -> pipe.sink().write(one), "helper", () -> pipe.source().read(other), "pipe");
                pipe.sink().close();
                pipe.source().close();
            }
            case "event" -> {
                CountDownLatch latch = new CountDownLatch(1);
                until(latch::countDown, "helper", latch::await, "lock");
            }
            case "dns" -> {
                InetAddress.getByName("w" + ms + ".test");
                waited("socket", "network", "", since(began));
            }
            case "child" -> {
                new ProcessBuilder("sleep", String.valueOf(ms / 1e3)).start().waitFor();
                waited("lock", "thread process reaper", "process ", since(began));
            }
            case "gc" -> collect();
            case "stopped" -> stopped();
            case "keep" -> {
                Thread.currentThread().setName("keeper");
                synchronized (first) {
                    sync();
                }
            }
            case "convoy" -> convoy();
            case "end" -> {
                second.lock();
                waited("lock", "thread middle", "thread keeper", since(began));
                second.unlock();
            }
            default -> throw new IOException(what);
        }
    }

    static String head(InputStream in) throws IOException {
        StringBuilder head = new StringBuilder();
        for (int c; (c = in.read()) >= 0; ) {
            head.append((char) c);
            if (c == '\n' && head.indexOf("\r\n\r\n") >= 0) return head.toString();
        }
        return null;
    }

    static void handle(Socket socket) {
        try (socket) {
            InputStream in = new java.io.BufferedInputStream(socket.getInputStream());
            for (String head; (head = head(in)) != null; ) {
                long began = System.nanoTime(), ran = ran(), queued = queued();
                String path = head.split(" ")[1];
                String[] parts = path.split("/");
                Service request = new Service(Long.parseLong(parts[2]));
                request.work(parts[1]);
                String form = "{\"path\": \"%s\", \"ran\": %.6f, \"queued\": %.6f, \"took\": %.6f, \"waits\": %s}%n";
                double ranFor = (ran() - ran) / 1e9, wasQueued = (queued() - queued) / 1e9;
                System.out.printf(Locale.ROOT, form, path, ranFor, wasQueued, since(began), request.waits);
                socket.getOutputStream().write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".getBytes());
            }
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    public static void main(String[] args) throws IOException {
        Security.setProperty("networkaddress.cache.ttl", "0");
        leaf = Integer.parseInt(args[1]);
        file = new RandomAccessFile(args[2] + "/app.log", "rw").getChannel();
        ServerSocket listener = new ServerSocket(Integer.parseInt(args[0]), 64, InetAddress.getByName("127.0.0.1"));
        for (int n = 0; ; n++) {
            Socket socket = listener.accept();
            socket.setTcpNoDelay(true);
            new Thread(() -> handle(socket), "request-" + n).start();
        }
    }
}
