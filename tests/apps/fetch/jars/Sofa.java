import com.alipay.sofa.rpc.config.ConsumerConfig;
import com.alipay.sofa.rpc.config.ProviderConfig;
import com.alipay.sofa.rpc.config.ServerConfig;

/**
 * Both ends of a SOFARPC service over Bolt without a registry: `server PORT`, or `client PORT`, which reads `METHOD
 * VALUE` lines.
 */
public class Sofa {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        if (args[0].equals("server")) {
            ServerConfig server = new ServerConfig().setProtocol("bolt").setHost("127.0.0.1").setPort(port)
                .setDaemon(false);
            new ProviderConfig<Orders>().setInterfaceId(Orders.class.getName()).setRef(new Orders.Shop())
                .setServer(server).setRegister(false).export();
            Thread.currentThread().join();
        }
        ConsumerConfig<Orders> reference = new ConsumerConfig<Orders>().setInterfaceId(Orders.class.getName())
            .setProtocol("bolt")
            .setDirectUrl("bolt://127.0.0.1:" + port).setTimeout(20000).setRetries(0).setRegister(false);
        Orders.ask(reference.refer());
    }
}
