import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * RocketMQ's name server and broker in one process, and a client with a producer and a push consumer: `server
 * NAMES_PORT BROKER_PORT FOLDER`, or `client NAMES_PORT GROUP json|binary`, which reads `WHAT VALUE` lines.
 */
public class Rocketmq {
    private static final String TOPIC = "orders";

    public static void main(String[] args) throws Exception {
        if (args[0].equals("server")) {
            serve(Integer.parseInt(args[1]), Integer.parseInt(args[2]), args[3]);
            return;
        }
        // The library's threads would live on behind a failure of this one.
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        // Which form headers have is a property of the process.
        System.setProperty("rocketmq.serialize.type",
            args[3].equals("binary") ? SerializeType.ROCKETMQ.name() : SerializeType.JSON.name());
        String names = "127.0.0.1:" + args[1];
        DefaultMQProducer producer = new DefaultMQProducer(args[2]);
        producer.setNamesrvAddr(names);
        producer.setSendMsgTimeout(20000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setCompressMsgBodyOverHowmuch(1 << 20);
        producer.setClientIP("127.0.0.1");
        producer.start();
        // The broker may not have told the name server of its topic yet.
        for (int left = 300; left > 0; left--) {
            try {
                producer.fetchPublishMessageQueues(TOPIC);
                break;
            } catch (MQClientException unknown) {
                Thread.sleep(100);
            }
        }
        LinkedBlockingQueue<String> came = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(names);
        consumer.setClientIP("127.0.0.1");
        consumer.subscribe(TOPIC, args[2]);
        consumer.setMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(m -> came.add(m.getMsgId() + " " + m.getQueueOffset()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.out.println("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String[] words = line.split(" ", 2);
            System.out.println(answer(producer, came, args[2], words[0], words[1]));
        }
        consumer.shutdown();
        producer.shutdown();
        System.exit(0);
    }

    private static String answer(DefaultMQProducer producer, LinkedBlockingQueue<String> came, String tag, String what,
        String value) throws Exception {
        Message message = new Message(TOPIC, tag, value,
            value.repeat(what.equals("large") ? 2000 : 1).getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("token", value);
        try {
            switch (what) {
                case "one-way" -> producer.sendOneway(message, new MessageQueue(TOPIC, "wirespan", 0));
                case "receive" -> {
                    String first = came.poll(20, TimeUnit.SECONDS);
                    return first == null ? "none" : first;
                }
                case "wrong" -> producer.send(message, new MessageQueue(TOPIC, "wirespan", 7));
                default -> {
                    SendResult sent = producer.send(message, new MessageQueue(TOPIC, "wirespan", 0));
                    return sent.getMsgId() + " " + sent.getQueueOffset();
                }
            }
            return "ok";
        } catch (MQBrokerException error) {
            return "failed " + error.getResponseCode();
        }
    }

    private static void serve(int names, int port, String folder) throws Exception {
        // As its own starters do: the name server takes topics of no broker without a version.
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION));
        NettyServerConfig listen = new NettyServerConfig();
        listen.setListenPort(names);
        NamesrvController registry = new NamesrvController(new NamesrvConfig(), listen);
        registry.initialize();
        registry.start();
        BrokerConfig config = new BrokerConfig();
        config.setBrokerName("wirespan");
        config.setBrokerIP1("127.0.0.1");
        config.setBrokerIP2("127.0.0.1");
        config.setNamesrvAddr("127.0.0.1:" + names);
        config.setAutoCreateTopicEnable(false);
        config.setRocketmqHome(folder);
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(port);
        MessageStoreConfig store = new MessageStoreConfig();
        store.setStorePathRootDir(folder);
        store.setStorePathCommitLog(folder + "/commitlog");
        store.setMappedFileSizeCommitLog(1 << 20);
        store.setMappedFileSizeConsumeQueue(30_000);
        store.setMaxIndexNum(1000);
        store.setMaxHashSlotNum(100);
        store.setHaListenPort(port + 1);
        store.setTransientStorePoolEnable(false);
        BrokerController broker = new BrokerController(config, server, new NettyClientConfig(), store);
        broker.initialize();
        TopicConfig topic = new TopicConfig(TOPIC, 1, 1, 6);
        broker.getTopicConfigManager().updateTopicConfig(topic);
        broker.start();
        Runtime.getRuntime().addShutdownHook(new Thread(broker::shutdown));
        Thread.currentThread().join();
    }
}
