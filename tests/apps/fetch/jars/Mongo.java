import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;

/** Serves MongoDB's protocol from memory on 127.0.0.1: `PORT`. */
public class Mongo {
    public static void main(String[] args) throws Exception {
        new MongoServer(new MemoryBackend()).bind("127.0.0.1", Integer.parseInt(args[0]));
        Thread.currentThread().join();
    }
}
