import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.TextMapGetter;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * A service with a pool of threads and spans of OpenTelemetry's SDK for Java: the same as `Page` of run.py, which
 * starts it, asks it, and says what it writes of its spans.
 *
 * <p>usage: Service OTLP_ENDPOINT NAME LEAF_PORT; prints its port; ends when its input ends
 */
final class Service {
  private static final int MS = 20;
  private static final W3CTraceContextPropagator PROPAGATOR = W3CTraceContextPropagator.getInstance();

  private static final TextMapGetter<HttpExchange> GETTER =
      new TextMapGetter<>() {
        @Override
        public Iterable<String> keys(HttpExchange carrier) {
          return carrier.getRequestHeaders().keySet();
        }

        @Override
        public String get(HttpExchange carrier, String key) {
          return carrier.getRequestHeaders().getFirst(key);
        }
      };

  private final Tracer tracer;
  private final String leaf;

  private Service(Tracer tracer, String leaf) {
    this.tracer = tracer;
    this.leaf = leaf;
  }

  private interface Work {
    void run() throws Exception;
  }

  /** What a thread did within a span. */
  private static final class Clock {
    private final String which;
    private final String name;
    private final long began = System.nanoTime();
    private final long ran = threadTime();
    private long slept;
    private long called;

    Clock(String which, String name) {
      this.which = which;
      this.name = name;
    }

    void end(Span span) {
      String line = "{\"case\": \"%s\", \"name\": \"%s\", \"slept\": %.6f, \"called\": %.6f, \"span\": \"%s\", "
          + "\"ran\": %.6f, \"took\": %.6f}%n";
      String id = span.getSpanContext().getSpanId();
      System.out.printf(Locale.ROOT, line, which, name, slept / 1e9, called / 1e9, id, (threadTime() - ran) / 1e9,
          (System.nanoTime() - began) / 1e9);
    }
  }

  private static long threadTime() {
    return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
  }

  private static long timed(Work work) throws Exception {
    long began = System.nanoTime();
    work.run();
    return System.nanoTime() - began;
  }

  private static void spin() {
    long until = threadTime() + MS * 1_000_000L;
    while (threadTime() < until) {}
  }

  /** A span within the present one: it sleeps, it runs, or it does both. */
  private void spanOfWork(String which, String name) throws Exception {
    Clock clock = new Clock(which, name);
    Span span = tracer.spanBuilder(name).startSpan();
    if (!name.equals("spin")) {
      clock.slept += timed(() -> Thread.sleep(MS));
    }
    if (!name.equals("sleep")) {
      spin();
    }
    span.end();
    clock.end(span);
  }

  private void call(String which) throws Exception {
    Clock clock = new Clock(which, "call");
    Span span = tracer.spanBuilder("call").setSpanKind(SpanKind.CLIENT).startSpan();
    var connection = (HttpURLConnection) URI.create(leaf + "/leaf/" + MS).toURL().openConnection();
    PROPAGATOR.inject(Context.current().with(span), connection, HttpURLConnection::setRequestProperty);
    clock.called += timed(() -> connection.getInputStream().readAllBytes());
    span.end();
    clock.end(span);
  }

  private void serve(HttpExchange exchange) throws IOException {
    String path = exchange.getRequestURI().getPath();
    String which = path.split("/")[1];
    Clock clock = new Clock(which, "request");
    Context context = PROPAGATOR.extract(Context.root(), exchange, GETTER);
    Span span = tracer.spanBuilder("GET " + path).setParent(context).setSpanKind(SpanKind.SERVER).startSpan();
    try (Scope active = span.makeCurrent()) {
      for (String name : new String[] {"sleep", "spin", "both"}) {
        spanOfWork(which, name);
      }
      if (which.equals("called") || which.equals("warm")) {
        call(which);
      }
    } catch (Exception e) {
      throw new IOException(e);
    }
    exchange.sendResponseHeaders(200, -1);
    exchange.close();
    span.end();
    clock.end(span);
  }

  public static void main(String[] arguments) throws Exception {
    var attributes = Attributes.builder().put("service.name", arguments[1]);
    if (!arguments[1].equals("called")) {
      attributes.put("process.pid", ProcessHandle.current().pid());
    }
    var exporter = OtlpHttpSpanExporter.builder().setEndpoint(arguments[0]).build();
    var batches = BatchSpanProcessor.builder(exporter).setScheduleDelay(Duration.ofMillis(500)).build();
    var resource = Resource.create(attributes.build());
    var provider = SdkTracerProvider.builder().addSpanProcessor(batches).setResource(resource).build();
    var service = new Service(provider.get("tests.apps.sdk"), "http://127.0.0.1:" + arguments[2]);
    var server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.createContext("/", service::serve);
    server.setExecutor(Executors.newFixedThreadPool(4));
    server.start();
    System.out.println(server.getAddress().getPort());
    System.in.readAllBytes();
    provider.shutdown().join(10, TimeUnit.SECONDS);
    System.exit(0);
  }
}
