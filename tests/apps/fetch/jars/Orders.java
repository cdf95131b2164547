import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** The service of the RPC programs here, and a client that reads `METHOD VALUE` lines. */
public interface Orders {
    String echo(String text);

    List<String> list(int count, String text);

    String missing(String text);

    class Shop implements Orders {
        public String echo(String text) {
            return text;
        }

        public List<String> list(int count, String text) {
            return new ArrayList<>(Collections.nCopies(count, text));
        }

        public String missing(String text) {
            throw new IllegalStateException("no order '" + text + "'");
        }
    }

    static void ask(Orders orders) throws IOException {
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
