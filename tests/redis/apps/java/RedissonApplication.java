// Redisson: a lock keeps others out while the server is killed, and nothing that a collection has acknowledged is lost.

import java.time.Duration;
import java.util.ArrayList;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.ConstantDelay;

public class RedissonApplication {
    static final int THREADS = 4;
    static final int ROUNDS = 50;
    static final long MILLIS_MAX = 180_000;

    static RedissonClient redisson;
    static final AtomicInteger inside = new AtomicInteger();
    static final AtomicInteger acknowledged = new AtomicInteger();
    static final AtomicInteger unknown = new AtomicInteger();
    static final AtomicInteger rounds = new AtomicInteger();
    static final Set<String> kept = ConcurrentHashMap.newKeySet();

    interface Work<T> {
        T run() throws Exception;
    }

    /** Until the server is there again. */
    static <T> T patiently(Work<T> work) throws Exception {
        long deadline = System.currentTimeMillis() + MILLIS_MAX;
        while (true) {
            try {
                return work.run();
            } catch (RedisException failure) {
                if (System.currentTimeMillis() > deadline) throw failure;
                Thread.sleep(50);
            }
        }
    }

    static Void count() throws Exception {
        for (int round = 0; round < ROUNDS; round++) {
            var lock = redisson.getLock("lock");
            // Asked again each second: who waits hears of the release by a message, which a server that is killed may not send.
            while (!patiently(() -> lock.tryLock(1, 60, TimeUnit.SECONDS))) {}
            if (inside.incrementAndGet() != 1) throw new IllegalStateException("two hold the lock");
            try {
                redisson.getAtomicLong("count").incrementAndGet();
                acknowledged.incrementAndGet();
            } catch (RedisException failure) {
                unknown.incrementAndGet();
            }
            inside.decrementAndGet();
            // What failed may have been done: then the lock is held twice, or not at all any more.
            patiently(() -> {
                while (lock.isHeldByCurrentThread()) lock.unlock();
                return null;
            });
            var name = Thread.currentThread().getId() + ":" + round;
            patiently(() -> redisson.getMap("map", StringCodec.INSTANCE).put(name, "value of " + name));
            patiently(() -> redisson.getSetCache("set", StringCodec.INSTANCE).add(name, 1, TimeUnit.HOURS));
            patiently(() -> redisson.getQueue("queue", StringCodec.INSTANCE).offer(name));
            kept.add(name);
            if (rounds.incrementAndGet() == THREADS * ROUNDS / 2) System.out.println("HALFWAY");
        }
        return null;
    }

    public static void main(String[] arguments) throws Exception {
        var config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.useSingleServer().setAddress("redis://127.0.0.1:" + arguments[0]).setConnectionMinimumIdleSize(2).setConnectionPoolSize(16)
            .setRetryAttempts(0).setRetryDelay(new ConstantDelay(Duration.ofMillis(50))).setTimeout(5000);
        redisson = Redisson.create(config);
        var threads = Executors.newFixedThreadPool(THREADS);
        var running = new ArrayList<Future<Void>>();
        for (int thread = 0; thread < THREADS; thread++) running.add(threads.submit(RedissonApplication::count));
        for (var thread : running) thread.get();
        threads.shutdown();

        long count = redisson.getAtomicLong("count").get();
        if (count < acknowledged.get() || count > acknowledged.get() + unknown.get()) {
            throw new IllegalStateException(count + " counted, " + acknowledged + " acknowledged, " + unknown + " unknown");
        }
        var map = redisson.<String, String>getMap("map", StringCodec.INSTANCE).readAllMap();
        var queue = redisson.<String>getQueue("queue", StringCodec.INSTANCE).readAll();
        var set = redisson.<String>getSetCache("set", StringCodec.INSTANCE).readAll();
        for (var name : kept) {
            if (!("value of " + name).equals(map.get(name)) || !queue.contains(name) || !set.contains(name)) {
                throw new IllegalStateException(name + " is lost");
            }
        }
        System.out.println("DONE " + acknowledged + " counted under a lock, " + kept.size() + " kept");
        redisson.shutdown();
        System.exit(0);
    }
}
