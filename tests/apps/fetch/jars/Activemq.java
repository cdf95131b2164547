import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.broker.BrokerPlugin;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.security.AuthenticationUser;
import org.apache.activemq.security.SimpleAuthenticationPlugin;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * ActiveMQ and its clients: `server SCHEME PORT`, or `client SCHEME PORT OPTIONS`, which reads `WHAT VALUE` lines. The
 * scheme is `tcp` for OpenWire and its own client, `amqp` for AMQP 1.0 and Qpid's. The password is in $PASS.
 */
public class Activemq {
    public static void main(String[] args) throws Exception {
        String pass = System.getenv("PASS");
        if (args[0].equals("server")) {
            BrokerService broker = new BrokerService();
            broker.setPersistent(false);
            broker.setUseJmx(false);
            broker.setAdvisorySupport(false);
            AuthenticationUser user = new AuthenticationUser("boss", pass, "users");
            broker.setPlugins(new BrokerPlugin[] {new SimpleAuthenticationPlugin(List.of(user))});
            broker.addConnector(args[1] + "://127.0.0.1:" + args[2]);
            broker.start();
            broker.waitUntilStopped();
            return;
        }
        ConnectionFactory factory = factory(args[1], pass, args[1] + "://127.0.0.1:" + args[2] + args[3]);
        Connection connection = factory.createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue("orders");
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String[] words = line.split(" ", 2);
            String said = "ok";
            switch (words[0]) {
                case "send" -> send(session, producer, words[1], DeliveryMode.PERSISTENT);
                case "large" -> send(session, producer, words[1].repeat(3000), DeliveryMode.PERSISTENT);
                case "async" -> send(session, producer, words[1], DeliveryMode.NON_PERSISTENT);
                case "receive" -> said = consumer.receive(10000) == null ? "none" : "ok";
                default -> said = refused(factory, words[1]);
            }
            System.out.println(said);
        }
        connection.close();
        System.exit(0);
    }

    static ConnectionFactory factory(String scheme, String pass, String url) {
        if (scheme.equals("amqp")) {
            return new JmsConnectionFactory("boss", pass, url);
        }
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory("boss", pass, url);
        factory.setWatchTopicAdvisories(false);
        return factory;
    }

    static void send(Session session, MessageProducer producer, String text, int mode) throws JMSException {
        TextMessage message = session.createTextMessage(text);
        message.setStringProperty("token", text);
        producer.setDeliveryMode(mode);
        producer.send(message);
    }

    static String refused(ConnectionFactory factory, String wrong) {
        try {
            factory.createConnection("boss", wrong).start();
            return "accepted";
        } catch (JMSException error) {
            return "refused";
        }
    }
}
