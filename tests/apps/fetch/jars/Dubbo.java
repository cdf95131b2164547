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
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        ApplicationConfig application = new ApplicationConfig("shop-" + args[0]);
        application.setQosEnable(false);
        DubboBootstrap bootstrap = DubboBootstrap.getInstance().application(application)
            .registry(new RegistryConfig("N/A"));
        if (args[0].equals("server")) {
            ServiceConfig<Orders> service = new ServiceConfig<>();
            service.setInterface(Orders.class);
            service.setRef(new Orders.Shop());
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
        Orders.ask(reference.get());
    }
}
