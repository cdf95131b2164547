// A server that says in which functions it waits or runs: before it does, it writes its own stack to FILE.
//
// usage: java [-Dturns=N] [-Dvirtual=true] Stacks FILE PORT      answers GET /WHAT/MS
// turns: so many requests are made up at the start. virtual: each request has a virtual thread.
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.AccessController;
import java.security.PrivilegedAction;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntConsumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class Stacks {
    static Path file;
    static volatile long turns;
    static final Object lock = new Object();

    /** A request. */
    record Asked(String path, long ns) {
        void sleep() {
            if (path != null) { write(path); pause(ns); }
        }

        void spin() {
            write(path);
            long until = System.nanoTime() + ns;
            do {
                for (int i = 0; i < 1000; i++) turns = Shop.mix(turns, i);
            } while (System.nanoTime() < until);
        }
    }

    /** Waits in the kernel. It is called on the line that writes the stack, so that both have the same callers. */
    static void pause(long ns) {
        long until = System.nanoTime() + ns;
        for (long left = ns; left > 0; left = until - System.nanoTime()) LockSupport.parkNanos(left);
    }

    /** Functions of this program that are on the stack, with file and line, innermost first. */
    static void write(String path) {
        List<String> frames = StackWalker.getInstance().walk(all -> all.skip(1)
            .filter(frame -> frame.getClassName().startsWith("Stacks"))
            .map(frame -> "\"" + frame.getClassName() + "." + frame.getMethodName() + " (" + frame.getFileName() + ":"
                + frame.getLineNumber() + ")\"")
            .collect(Collectors.toList()));
        try {
            String line = "[\"" + path + "\", [" + String.join(", ", frames) + "]]\n";
            Files.writeString(file, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new RuntimeException(e);
        }
    }

    interface Priced {
        default void price(Asked asked) {
            discount(asked, 1);
        }

        void discount(Asked asked, int percent);
    }

    static class Shop implements Priced {
        final Asked made;

        Shop() {
            made = null;
        }

        Shop(Asked asked) {
            made = asked;
            asked.sleep();
        }

        public void discount(Asked asked, int percent) {
            asked.sleep();
        }

        static long mix(long sum, int n) {
            return sum * 31 + n ^ sum >>> 7;
        }
    }

    static int deep(Asked asked, int levels) {
        if (levels == 0) {
            asked.sleep();
            return 0;
        }
        return deep(asked, levels - 1) + 1;
    }

    /** A virtual thread gives its place up in between, and comes back with the innermost functions only. */
    static void resumed(Asked asked, int levels) {
        if (levels > 0) {
            resumed(asked, levels - 1);
        } else {
            pause(2_000_000);
            asked.spin();
        }
    }

    static void sorted(Asked asked) {
        Integer[] both = { 2, 1 };
        Arrays.sort(both, (a, b) -> {
            asked.sleep();
            return a - b;
        });
    }

    static void streamed(Asked asked) {
        IntStream.range(0, 3).filter(n -> n == 1).forEach(n -> asked.sleep());
    }

    static void größe(Asked asked) {
        IntConsumer closure = n -> asked.sleep();
        closure.accept(1);
    }

    @SuppressWarnings("removal")
    static void privileged(Asked asked) {
        AccessController.doPrivileged((PrivilegedAction<Void>) () -> {
            asked.sleep();
            return null;
        });
    }

    static void reflected(Asked asked) {
        try {
            Stacks.class.getDeclaredMethod("deep", Asked.class, int.class).invoke(null, asked, 2);
        } catch (ReflectiveOperationException e) {
            throw new RuntimeException(e);
        }
    }

    static synchronized void guarded(Asked asked) {
        synchronized (lock) {
            asked.sleep();
        }
    }

    /** The machine itself calls what is in here, once. */
    static class Late {
        static Asked asked;

        static class Once {
            static {
                asked.sleep();
            }

            static void touch() {
            }
        }
    }

    static void initialized(Asked asked) {
        Late.asked = asked;
        Late.Once.touch();
    }

    /** Another thread asks for a collection of garbage, and there is some: the machine stops this one meanwhile. */
    static void stopped(Asked asked) {
        Object[] kept = IntStream.range(0, 1_000_000).mapToObj(n -> new long[4]).toArray();
        var collector = new Thread(System::gc);
        collector.start();
        while (collector.isAlive()) turns = Shop.mix(turns, kept.length);
        asked.spin();
    }

    static void work(String what, Asked asked) {
        switch (what) {
            case "sleep" -> asked.sleep();
            case "spin" -> asked.spin();
            case "resumed" -> resumed(asked, 10);
            case "method" -> new Shop().price(asked);
            case "made" -> new Shop(asked);
            case "deep" -> deep(asked, 20);
            case "recursion" -> deep(asked, 10_000);
            case "stopped" -> stopped(asked);
            case "sorted" -> sorted(asked);
            case "streamed" -> streamed(asked);
            case "letters" -> größe(asked);
            case "privileged" -> privileged(asked);
            case "reflected" -> reflected(asked);
            case "guarded" -> guarded(asked);
            case "initialized" -> initialized(asked);
            default -> { }
        }
    }

    static void handle(Socket socket) {
        try (socket) {
            var in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
            String[] request = in.readLine().split(" ");
            for (String line = in.readLine(); line != null && !line.isEmpty();) line = in.readLine();
            String[] parts = request[1].split("/");
            work(parts[1], new Asked(request[1], Long.parseLong(parts[2]) * 1_000_000));
            socket.getOutputStream().write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".getBytes());
        } catch (IOException | RuntimeException e) {
            // The client has gone, or its request is not of this server.
        }
    }

    public static void main(String[] args) throws Exception {
        file = Path.of(args[0]);
        String[] all = { "sleep", "method", "made", "deep", "sorted", "streamed", "letters", "privileged", "guarded" };
        var listener = new ServerSocket(Integer.parseInt(args[1]), 64, InetAddress.getLoopbackAddress());
        // The compilers are given work. Some of it must wait, else they take for granted that nothing ever does.
        for (int n = 0; n < Integer.getInteger("turns", 0); n++) {
            work(all[n % all.length], new Asked(n % 20 == 0 ? "warm" : null, 1_000));
        }
        // Before Java 21 there is no such method.
        boolean isVirtual = Boolean.getBoolean("virtual");
        Method virtual = isVirtual ? Thread.class.getMethod("startVirtualThread", Runnable.class) : null;
        while (true) {
            Socket socket = listener.accept();
            Runnable request = () -> handle(socket);
            if (virtual == null) new Thread(request).start();
            else virtual.invoke(null, request);
        }
    }
}
