import com.baidu.bjf.remoting.protobuf.FieldType;
import com.baidu.bjf.remoting.protobuf.annotation.Protobuf;
import com.baidu.jprotobuf.pbrpc.ErrorDataException;
import com.baidu.jprotobuf.pbrpc.ProtobufRPC;
import com.baidu.jprotobuf.pbrpc.ProtobufRPCService;
import com.baidu.jprotobuf.pbrpc.client.ProtobufRpcProxy;
import com.baidu.jprotobuf.pbrpc.transport.RpcClient;
import com.baidu.jprotobuf.pbrpc.transport.RpcServer;
import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Both ends of a service over bRPC's protocol, baidu_std: `server PORT`, or `client PORT`, which reads `METHOD VALUE`
 * lines.
 */
public class Brpc {
    public static class Text {
        @Protobuf(fieldType = FieldType.STRING, order = 1, required = true)
        public String text;
    }

    public interface Cart {
        @ProtobufRPC(serviceName = "shop.Cart", onceTalkTimeout = 20000)
        Text add(Text text);

        @ProtobufRPC(serviceName = "shop.Cart", onceTalkTimeout = 20000)
        Text refuse(Text text);

        @ProtobufRPC(serviceName = "shop.Cart", onceTalkTimeout = 20000)
        Text missing(Text text);
    }

    public static class Shop {
        @ProtobufRPCService(serviceName = "shop.Cart", methodName = "add")
        public Text add(Text text) {
            return text;
        }

        @ProtobufRPCService(serviceName = "shop.Cart", methodName = "refuse")
        public Text refuse(Text text) {
            throw new IllegalStateException("no room for '" + text.text + "'");
        }
    }

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        if (args[0].equals("server")) {
            RpcServer server = new RpcServer();
            server.registerService(new Shop());
            server.start(port);
            Thread.currentThread().join();
        }
        ProtobufRpcProxy<Cart> proxy = new ProtobufRpcProxy<>(new RpcClient(), Cart.class);
        proxy.setHost("127.0.0.1");
        proxy.setPort(port);
        Cart cart = proxy.proxy();
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String[] words = line.split(" ", 2);
            Text text = new Text();
            text.text = words[0].equals("large") ? words[1].repeat(5000) : words[1];
            String said = "ok";
            try {
                switch (words[0]) {
                    case "refuse" -> cart.refuse(text);
                    case "missing" -> cart.missing(text);
                    default -> cart.add(text);
                }
            } catch (Exception error) {
                // What the service answered stands behind what the proxy could not declare.
                said = error.getCause() instanceof ErrorDataException answered ? "failed "
                    + answered.getErrorCode() : error.toString();
            }
            System.out.println(said);
        }
        System.exit(0);
    }
}
