import java.io.File;
import java.security.KeyStore;
import javax.net.ssl.*;

/** The key and the certificate of this folder, which both ends use. */
class Keys {
    static SSLContext context() throws Exception {
        char[] word = "secret".toCharArray();
        KeyStore keys = KeyStore.getInstance(new File("keys.p12"), word);
        KeyManagerFactory own = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        own.init(keys, word);
        KeyStore known = KeyStore.getInstance("PKCS12");
        known.load(null, null);
        known.setCertificateEntry("own", keys.getCertificate(keys.aliases().nextElement()));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(known);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(own.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }
}
