import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.Set;
import org.apache.bookkeeper.bookie.SortedLedgerStorage;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.common.policies.data.ClusterData;
import org.apache.pulsar.common.policies.data.TenantInfo;
import org.apache.pulsar.zookeeper.LocalBookkeeperEnsemble;

/**
 * Pulsar's broker with ZooKeeper and one bookie in one process: `Pulsar PORT FOLDER`; it writes `FOLDER/ready` when its
 * namespace is there.
 */
public class Pulsar {
    public static void main(String[] args) throws Exception {
        ServiceConfiguration config = new ServiceConfiguration();
        config.setClusterName("standalone");
        config.setBrokerServicePort(Optional.of(Integer.parseInt(args[0])));
        config.setWebServicePort(Optional.of(8080));
        config.setBindAddress("127.0.0.1");
        config.setAdvertisedAddress("127.0.0.1");
        config.setMetadataStoreUrl("zk:127.0.0.1:2181");
        config.setConfigurationMetadataStoreUrl("zk:127.0.0.1:2181");
        config.setManagedLedgerDefaultEnsembleSize(1);
        config.setManagedLedgerDefaultWriteQuorum(1);
        config.setManagedLedgerDefaultAckQuorum(1);
        config.setManagedLedgerCacheSizeMB(16);
        config.setLoadBalancerEnabled(false);
        config.setDefaultNumberOfNamespaceBundles(1);
        config.setSystemTopicEnabled(false);
        config.setTopicLevelPoliciesEnabled(false);
        config.setNumIOThreads(2);
        config.setNumHttpServerThreads(8);
        config.setRunningStandalone(true);
        ServerConfiguration bookie = new ServerConfiguration();
        bookie.setLedgerStorageClass(SortedLedgerStorage.class.getName());
        bookie.setAllowLoopback(true);
        bookie.setAdvertisedAddress("127.0.0.1");
        bookie.setDiskUsageThreshold(0.999f);
        bookie.setDiskUsageWarnThreshold(0.99f);
        new LocalBookkeeperEnsemble(1, 2181, 3181, 4181, args[1] + "/zookeeper", args[1] + "/bookkeeper", true,
            "127.0.0.1").startStandalone(bookie, false);
        PulsarService broker = new PulsarService(config);
        broker.start();
        PulsarAdmin admin = broker.getAdminClient();
        admin.clusters().createCluster("standalone",
            ClusterData.builder().serviceUrl(broker.getWebServiceAddress())
                .brokerServiceUrl(broker.getBrokerServiceUrl()).build());
        admin.tenants().createTenant("public", TenantInfo.builder().allowedClusters(Set.of("standalone")).build());
        admin.namespaces().createNamespace("public/default", Set.of("standalone"));
        Files.createFile(Path.of(args[1], "ready"));
        Thread.currentThread().join();
    }
}
