import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import de.bwaldvogel.mongo.bson.Document;
import io.netty.channel.Channel;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.util.List;

/**
 * Serves MongoDB's protocol from memory on 127.0.0.1: `PORT [LOG]`. The log gets a line for each command: the caller's
 * port, the command, its collection, and its whole document.
 */
public class Mongo {
    public static void main(String[] args) throws Exception {
        var log = args.length > 1 ? new PrintStream(args[1]) : null;
        var backend = new MemoryBackend() {
            @Override
            public Document handleCommand(Channel channel, String database, String command, Document query) {
                if (log != null) {
                    int port = ((InetSocketAddress) channel.remoteAddress()).getPort();
                    var collection = command.equals("getMore") ? query.get("collection") : query.get(command);
                    log.println(port + "\t" + command + "\t" + collection + "\t" + query);
                }
                return super.handleCommand(channel, database, command, query);
            }
        };
        backend.version(new MongoVersion() {
            @Override
            public List<Integer> getVersionArray() {
                return List.of(4, 4, 0);
            }

            @Override
            public int getWireVersion() {
                return 9; // the least that today's drivers accept
            }
        });
        new MongoServer(backend).bind("127.0.0.1", Integer.parseInt(args[0]));
        Thread.currentThread().join();
    }
}
