// Spring Data Redis: transactions move money between accounts, scripts and streams do their work, and nothing acknowledged is lost when
// the server is killed.

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.springframework.dao.DataAccessException;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.connection.stream.Consumer;
import org.springframework.data.redis.connection.stream.ReadOffset;
import org.springframework.data.redis.connection.stream.StreamOffset;
import org.springframework.data.redis.connection.stream.StreamReadOptions;
import org.springframework.data.redis.core.RedisOperations;
import org.springframework.data.redis.core.SessionCallback;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.script.RedisScript;

public class SpringApplication {
    static final int ROUNDS = 200;
    static final int ACCOUNTS = 5;
    static final long MILLIS_MAX = 180_000;
    static StringRedisTemplate redis;

    interface Work<T> {
        T run() throws Exception;
    }

    /** Until the server is there again. */
    static <T> T patiently(Work<T> work) throws Exception {
        long deadline = System.currentTimeMillis() + MILLIS_MAX;
        while (true) {
            try {
                return work.run();
            } catch (DataAccessException failure) {
                if (System.currentTimeMillis() > deadline) throw failure;
                Thread.sleep(50);
            }
        }
    }

    static SessionCallback<List<Object>> transfer(String from, String to) {
        return new SessionCallback<>() {
            @Override
            @SuppressWarnings("unchecked")
            public <K, V> List<Object> execute(RedisOperations<K, V> operations) {
                var session = (RedisOperations<String, String>) operations;
                session.multi();
                session.opsForHash().increment("accounts", from, -1);
                session.opsForHash().increment("accounts", to, 1);
                return session.exec();
            }
        };
    }

    public static void main(String[] arguments) throws Exception {
        var client = LettuceClientConfiguration.builder().commandTimeout(Duration.ofSeconds(5)).build();
        var connections = new LettuceConnectionFactory(new RedisStandaloneConfiguration("127.0.0.1", Integer.parseInt(arguments[0])), client);
        connections.afterPropertiesSet();
        connections.start();
        redis = new StringRedisTemplate(connections);
        for (int account = 0; account < ACCOUNTS; account++) redis.opsForHash().put("accounts", "a" + account, "100");
        redis.opsForStream().createGroup("stream", ReadOffset.from("0"), "group");
        var largest = RedisScript.of("local old = tonumber(redis.call('GET', KEYS[1]) or '0') local new = math.max(old, tonumber(ARGV[1])) redis.call('SET', KEYS[1], new) return new", Long.class);

        Set<String> sent = new HashSet<>();
        for (int round = 1; round <= ROUNDS; round++) {
            int now = round;
            var id = "round " + round;
            patiently(() -> redis.execute(transfer("a" + now % ACCOUNTS, "a" + (now * 3 + 1) % ACCOUNTS)));
            patiently(() -> redis.opsForStream().add("stream", Map.of("id", id)));
            patiently(() -> redis.opsForZSet().add("scores", id, now));
            patiently(() -> redis.execute(largest, List.of("largest"), String.valueOf(now)));
            patiently(() -> {
                redis.opsForValue().set("value:" + now, id, Duration.ofHours(1));
                return null;
            });
            sent.add(id);
            if (round == ROUNDS / 2) System.out.println("HALFWAY");
        }

        long money = 0;
        for (var balance : redis.opsForHash().values("accounts")) money += Long.parseLong((String) balance);
        if (money != 100 * ACCOUNTS) throw new IllegalStateException(money + " in all accounts");
        Set<String> received = new HashSet<>();
        while (true) {
            var records = redis.opsForStream().read(Consumer.from("group", "consumer"), StreamReadOptions.empty().count(50), StreamOffset.create("stream", ReadOffset.lastConsumed()));
            if (records == null || records.isEmpty()) break;
            for (var entry : records) {
                received.add((String) entry.getValue().get("id"));
                redis.opsForStream().acknowledge("group", entry);
            }
        }
        if (!received.equals(sent)) throw new IllegalStateException(received.size() + " received of " + sent.size());
        if (redis.opsForStream().pending("stream", "group").getTotalPendingMessages() != 0) throw new IllegalStateException("not all acknowledged");
        if (redis.opsForZSet().zCard("scores") != ROUNDS) throw new IllegalStateException("members are missing");
        if (!String.valueOf(ROUNDS).equals(redis.opsForValue().get("largest"))) throw new IllegalStateException("the script's value");
        for (int round = 1; round <= ROUNDS; round++) {
            if (!("round " + round).equals(redis.opsForValue().get("value:" + round))) throw new IllegalStateException("round " + round + " is lost");
        }
        System.out.println("DONE " + received.size() + " rounds, all money there");
        System.exit(0);
    }
}
