package org.testcontainers.quartet;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/**
 * A Quartet server in a container, with its data in memory.
 *
 * <p>It makes a root key of its own and prints it once; this class reads it from the container's output and puts it into every address.
 */
public class QuartetContainer extends GenericContainer<QuartetContainer> {
    public static final DockerImageName IMAGE = DockerImageName.parse("quartet/quartet:0.1.0");
    public static final String ACCESS_KEY_ID = "quartet";
    public static final String SECRET_ACCESS_KEY = "quartet-secret";

    private static final int REDIS = 6379;
    private static final int REST = 8080;
    private static final int DYNAMODB = 8000;
    private static final int FAUNA = 8443;
    private static final int KEYVALUE = 4500;
    private static final Pattern ROOT_KEY = Pattern.compile("root key, shown this once: (\\S+)");

    public QuartetContainer() {
        this(IMAGE);
    }

    public QuartetContainer(DockerImageName image) {
        super(image);
        withExposedPorts(REDIS, REST, DYNAMODB, FAUNA, KEYVALUE);
        withCommand("serve", "--data", "memory");
        withEnv("QUARTET_DYNAMODB_ACCESS_KEYS", ACCESS_KEY_ID + ":" + SECRET_ACCESS_KEY);
        waitingFor(Wait.forHttp("/readyz").forPort(REST));
    }

    /** Opens every layer: Redis' password, REST's token, FaunaDB's secret. */
    public String getKey() {
        Matcher found = ROOT_KEY.matcher(getLogs());
        if (!found.find()) {
            throw new IllegalStateException("the server printed no root key");
        }
        return found.group(1);
    }

    public String getRedisUrl() {
        return "redis://:" + getKey() + "@" + address(REDIS);
    }

    public String getRestUrl() {
        return "http://" + address(REST);
    }

    public String getDynamodbUrl() {
        return "http://" + address(DYNAMODB);
    }

    public String getFaunaUrl() {
        return "http://" + address(FAUNA);
    }

    /** The line of a cluster file for clients of FoundationDB. */
    public String getCluster() {
        return "quartet:" + getKey() + "@" + address(KEYVALUE);
    }

    private String address(int port) {
        return getHost() + ":" + getMappedPort(port);
    }
}
