import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SslOptions;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Map;
import java.util.Set;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.JedisSentinelPool;

/** jedis and lettuce over TLS, as clients of a cluster and as clients of a sentinel; started by tests/redis/clients/test_modes.py. */
public class Modes {
    static final int PORT = Integer.parseInt(System.getenv("QUARTET_REDIS_PORT"));
    static final int SENTINEL_PORT = Integer.parseInt(System.getenv("QUARTET_SENTINEL_PORT"));
    static final Path ROOTS = Path.of(System.getenv("QUARTET_ROOTS"));

    static void equal(Object observed, Object expected) {
        if (!expected.equals(observed)) throw new AssertionError(observed + " is not " + expected);
    }

    static SSLSocketFactory trusting() throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream pem = Files.newInputStream(ROOTS)) {
            store.setCertificateEntry("root", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context.getSocketFactory();
    }

    static void jedis() throws Exception {
        HostAndPort here = new HostAndPort("127.0.0.1", PORT);
        DefaultJedisClientConfig clear = DefaultJedisClientConfig.builder().build();
        DefaultJedisClientConfig secure = DefaultJedisClientConfig.builder().ssl(true).sslSocketFactory(trusting()).build();
        try (JedisPooled direct = new JedisPooled(here, secure)) {
            equal(direct.set("jedis:direct", "1"), "OK");
        }
        for (DefaultJedisClientConfig config : new DefaultJedisClientConfig[] {clear, secure}) {
            try (JedisCluster cluster = new JedisCluster(Set.of(here), config)) {
                equal(cluster.set("jedis:cluster", "1"), "OK");
                equal(cluster.mset("{jedis}a", "1", "{jedis}b", "2"), "OK");
                equal(cluster.getClusterNodes().size(), 1);
            }
        }
        try (JedisSentinelPool pool = new JedisSentinelPool("mymaster", Set.of("127.0.0.1:" + SENTINEL_PORT)); var client = pool.getResource()) {
            equal(client.set("jedis:sentinel", "1"), "OK");
        }
    }

    static void lettuce() {
        SslOptions ssl = SslOptions.builder().trustManager(ROOTS.toFile()).build();
        RedisURI clear = RedisURI.create("redis://127.0.0.1:" + PORT);
        RedisURI secure = RedisURI.create("rediss://127.0.0.1:" + PORT);
        RedisClient direct = RedisClient.create(secure);
        direct.setOptions(ClientOptions.builder().sslOptions(ssl).build());
        equal(direct.connect().sync().set("lettuce:direct", "1"), "OK");
        direct.shutdown();
        for (RedisURI uri : new RedisURI[] {clear, secure}) {
            RedisClusterClient cluster = RedisClusterClient.create(uri);
            cluster.setOptions(ClusterClientOptions.builder().sslOptions(ssl).build());
            var commands = cluster.connect().sync();
            equal(commands.mset(Map.of("lettuce:a", "1", "lettuce:b", "2")), "OK");
            equal(commands.mget("lettuce:a", "lettuce:b").size(), 2);
            equal(cluster.getPartitions().size(), 1);
            cluster.shutdown();
        }
        RedisClient asking = RedisClient.create(RedisURI.Builder.sentinel("127.0.0.1", SENTINEL_PORT, "mymaster").build());
        equal(asking.connect().sync().set("lettuce:sentinel", "1"), "OK");
        asking.shutdown();
    }

    public static void main(String[] arguments) throws Exception {
        jedis();
        lettuce();
        System.out.println("done");
        System.exit(0);
    }
}
