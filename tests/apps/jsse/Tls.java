import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.*;
import java.net.*;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.*;
import java.util.concurrent.Executors;
import javax.net.ssl.*;

/**
 * Servers and clients of the JDK's TLS, with sockets and with engines. Each client calls one server until told by the
 * standard input; then all call both. A body has as many bytes as the end of its path says.
 */
public class Tls {
    static byte[] body(String path) {
        return new byte[Integer.parseInt(path.substring(path.lastIndexOf('/') + 1))];
    }

    /** A server with an engine. */
    static int engine(SSLContext context) throws Exception {
        HttpsServer server = HttpsServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.setHttpsConfigurator(new HttpsConfigurator(context));
        server.setExecutor(Executors.newFixedThreadPool(3, Tls::daemon));
        server.createContext("/", call -> {
            byte[] body = body(call.getRequestURI().getPath());
            call.getRequestBody().readAllBytes();
            call.sendResponseHeaders(200, body.length);
            try (OutputStream out = call.getResponseBody()) { out.write(body); }
        });
        server.start();
        return server.getAddress().getPort();
    }

    static Thread daemon(Runnable run) {
        Thread thread = new Thread(run);
        thread.setDaemon(true);
        return thread;
    }

    /** A server with sockets. */
    static int socket(SSLContext context) throws Exception {
        InetAddress local = InetAddress.getLoopbackAddress();
        ServerSocket server = context.getServerSocketFactory().createServerSocket(0, 9, local);
        daemon(() -> {
            while (true) {
                try {
                    Socket peer = server.accept();
                    daemon(() -> { try { serve(peer); } catch (IOException e) { } }).start();
                } catch (IOException e) { return; }
            }
        }).start();
        return server.getLocalPort();
    }

    static void serve(Socket peer) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(peer.getInputStream()));
        for (String line; (line = in.readLine()) != null;) {
            byte[] body = body(line.split(" ")[1]);
            while (!in.readLine().isEmpty()) { }
            OutputStream out = peer.getOutputStream();
            out.write(("HTTP/1.1 200 OK\r\nContent-Length: " + body.length + "\r\n\r\n").getBytes());
            out.write(body);
        }
        peer.close();
    }

    static void connection(String url) throws Exception {
        HttpsURLConnection call = (HttpsURLConnection) new URL(url).openConnection();
        if (call.getResponseCode() != 200) throw new IOException("status");
        call.getInputStream().readAllBytes();
    }

    static void client(HttpClient client, String url) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url)).build();
        if (client.send(request, HttpResponse.BodyHandlers.ofByteArray()).statusCode() != 200)
            throw new IOException("status");
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("jdk.tls.client.protocols", args[0]);
        SSLContext context = Keys.context();
        HttpsURLConnection.setDefaultSSLSocketFactory(context.getSocketFactory());
        HttpClient.Builder builder = HttpClient.newBuilder().sslContext(context).version(HttpClient.Version.HTTP_1_1);
        HttpClient old = builder.build();
        int[] ports = { engine(context), socket(context) };
        String[] names = { "engine", "socket" };
        System.err.println("serving");
        while (System.in.available() == 0) {
            connection("https://127.0.0.1:" + ports[1] + "/warm-socket/1");
            client(old, "https://127.0.0.1:" + ports[0] + "/warm-engine/1");
            Thread.sleep(20);
        }
        HttpClient fresh = builder.build();
        for (int size : new int[] { 10, 40000 })
            for (int i = 0; i < 2; i++) {
                String path = "https://127.0.0.1:" + ports[i] + "/" + names[i];
                connection(path + "-connection/" + size);
                client(fresh, path + "-fresh/" + size);
                client(old, path + "-old/" + size);
            }
        System.exit(0);
    }
}
