import java.util.List;
import org.testcontainers.quartet.QuartetContainer;

/** What the module would ask of a container engine; none is asked here. */
public class Configuration {
    public static void main(String[] arguments) {
        QuartetContainer container =
                new QuartetContainer() {
                    @Override
                    public String getLogs() {
                        return "root key, shown this once: qk_1\nready\n";
                    }

                    @Override
                    public String getHost() {
                        return "127.0.0.1";
                    }

                    @Override
                    public Integer getMappedPort(int port) {
                        return port + 10_000;
                    }
                };
        expect(container.getExposedPorts(), List.of(6379, 8080, 8000, 8443, 4500));
        expect(List.of(container.getCommandParts()), List.of("serve", "--data", "memory"));
        expect(container.getEnvMap().get("QUARTET_DYNAMODB_ACCESS_KEYS"), "quartet:quartet-secret");
        expect(container.getRedisUrl(), "redis://:qk_1@127.0.0.1:16379");
        expect(container.getRestUrl(), "http://127.0.0.1:18080");
        expect(container.getDynamodbUrl(), "http://127.0.0.1:18000");
        expect(container.getFaunaUrl(), "http://127.0.0.1:18443");
        expect(container.getCluster(), "quartet:qk_1@127.0.0.1:14500");
        System.out.println("as expected");
    }

    private static void expect(Object found, Object wanted) {
        if (!wanted.equals(found)) {
            throw new AssertionError(found + " in the place of " + wanted);
        }
    }
}
