import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;

/**
 * Both ends of a Dubbo service without a registry: `server PORT`, or `client PORT`, which reads `METHOD VALUE` lines.
 */
public class Dubbo {
    public interface Orders {
        String echo(String text);

        List<String> list(int count, String text);

        String missing(String text);
    }

    static class Shop implements Orders {
        public String echo(String text) {
            return text;
        }

        public List<String> list(int count, String text) {
            List<String> all = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                all.add(text);
            }
            return all;
        }

        public String missing(String text) {
            throw new IllegalStateException("no order '" + text + "'");
        }
    }

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        ApplicationConfig application = new ApplicationConfig("shop-" + args[0]);
        application.setQosEnable(false);
        DubboBootstrap bootstrap = DubboBootstrap.getInstance().application(application)
            .registry(new RegistryConfig("N/A"));
        if (args[0].equals("server")) {
            ServiceConfig<Orders> service = new ServiceConfig<>();
            service.setInterface(Orders.class);
            service.setRef(new Shop());
            ProtocolConfig protocol = new ProtocolConfig("dubbo", port);
            protocol.setHost("127.0.0.1");
            protocol.setSerialization("hessian2");
            bootstrap.protocol(protocol).service(service).start().await();
            return;
        }
        ReferenceConfig<Orders> reference = new ReferenceConfig<>();
        reference.setInterface(Orders.class);
        reference.setUrl("dubbo://127.0.0.1:" + port + "?serialization=hessian2");
        reference.setTimeout(20000);
        reference.setRetries(0);
        bootstrap.reference(reference).start();
        Orders orders = reference.get();
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String[] words = line.split(" ", 2);
            String said = "ok";
            try {
                switch (words[0]) {
                    case "echo" -> orders.echo(words[1]);
                    case "large" -> orders.echo(words[1].repeat(5000));
                    case "list" -> orders.list(500, words[1]);
                    default -> orders.missing(words[1]);
                }
            } catch (IllegalStateException error) {
                said = "failed";
            }
            System.out.println(said);
        }
        System.exit(0);
    }
}
