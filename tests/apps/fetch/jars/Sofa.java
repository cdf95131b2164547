import com.alipay.sofa.rpc.config.ConsumerConfig;
import com.alipay.sofa.rpc.config.ProviderConfig;
import com.alipay.sofa.rpc.config.ServerConfig;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;

/**
 * Both ends of a SOFARPC service over Bolt without a registry: `server PORT`, or `client PORT`, which reads `METHOD
 * VALUE` lines.
 */
public class Sofa {
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
        if (args[0].equals("server")) {
            ServerConfig server = new ServerConfig().setProtocol("bolt").setHost("127.0.0.1").setPort(port)
                .setDaemon(false);
            new ProviderConfig<Orders>().setInterfaceId(Orders.class.getName()).setRef(new Shop()).setServer(server)
                .setRegister(false).export();
            Thread.currentThread().join();
        }
        ConsumerConfig<Orders> reference = new ConsumerConfig<Orders>().setInterfaceId(Orders.class.getName())
            .setProtocol("bolt")
            .setDirectUrl("bolt://127.0.0.1:" + port).setTimeout(20000).setRetries(0).setRegister(false);
        Orders orders = reference.refer();
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
