import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** Lines of a stream whose other bytes are read by their number. */
final class Lines {
    private Lines() {}

    /** The next line without its end; null if the stream ended. */
    static String next(InputStream in) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int b = in.read(); b >= 0; b = in.read()) {
            if (b == '\n') {
                return line.toString(StandardCharsets.UTF_8).stripTrailing();
            }
            line.write(b);
        }
        return null;
    }
}
