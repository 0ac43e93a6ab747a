// Package quartet starts a Quartet server in a container, with its data in memory.
//
// The server makes a root key of its own and prints it once; this module reads it from the container's output and puts it into every address.
package quartet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// Image is the one that Run takes if it is given an empty name.
const Image = "quartet/quartet:0.1.0"

// The access key for DynamoDB.
const (
	AccessKeyID     = "quartet"
	SecretAccessKey = "quartet-secret"
)

const (
	redisPort    = "6379/tcp"
	restPort     = "8080/tcp"
	dynamodbPort = "8000/tcp"
	faunaPort    = "8443/tcp"
	keyvaluePort = "4500/tcp"
)

var rootKey = regexp.MustCompile(`root key, shown this once: (\S+)`)

// Container is a running server.
type Container struct {
	testcontainers.Container
	// Key opens every layer: Redis' password, REST's token, FaunaDB's secret.
	Key string
}

// Run starts a server; it returns when the server is ready.
func Run(ctx context.Context, image string, options ...testcontainers.ContainerCustomizer) (*Container, error) {
	request := Request(image)
	for _, option := range options {
		if err := option.Customize(&request); err != nil {
			return nil, err
		}
	}
	started, err := testcontainers.GenericContainer(ctx, request)
	if err != nil {
		return nil, err
	}
	logs, err := started.Logs(ctx)
	if err != nil {
		return nil, err
	}
	defer logs.Close()
	key, err := KeyOf(logs)
	return &Container{Container: started, Key: key}, err
}

// Request is what Run asks for.
func Request(image string) testcontainers.GenericContainerRequest {
	if image == "" {
		image = Image
	}
	return testcontainers.GenericContainerRequest{
		Started: true,
		ContainerRequest: testcontainers.ContainerRequest{
			Image:        image,
			ExposedPorts: []string{redisPort, restPort, dynamodbPort, faunaPort, keyvaluePort},
			Cmd:          []string{"serve", "--data", "memory"},
			Env:          map[string]string{"QUARTET_DYNAMODB_ACCESS_KEYS": AccessKeyID + ":" + SecretAccessKey},
			WaitingFor:   wait.ForHTTP("/readyz").WithPort(restPort),
		},
	}
}

// KeyOf finds the root key in the server's output.
func KeyOf(output io.Reader) (string, error) {
	text, err := io.ReadAll(output)
	if err != nil {
		return "", err
	}
	found := rootKey.FindSubmatch(text)
	if found == nil {
		return "", errors.New("the server printed no root key")
	}
	return string(found[1]), nil
}

// RedisURL is the address for Redis' clients.
func (c *Container) RedisURL(ctx context.Context) (string, error) {
	return c.address(ctx, redisPort, "redis://:"+c.Key+"@%s")
}

// RestURL is Redis over REST; the token is Key.
func (c *Container) RestURL(ctx context.Context) (string, error) {
	return c.address(ctx, restPort, "http://%s")
}

// DynamoDBURL is the endpoint for the AWS SDK, with AccessKeyID and SecretAccessKey.
func (c *Container) DynamoDBURL(ctx context.Context) (string, error) {
	return c.address(ctx, dynamodbPort, "http://%s")
}

// FaunaURL is the endpoint for FaunaDB's driver; the secret is Key.
func (c *Container) FaunaURL(ctx context.Context) (string, error) {
	return c.address(ctx, faunaPort, "http://%s")
}

// Cluster is the line of a cluster file for clients of FoundationDB.
func (c *Container) Cluster(ctx context.Context) (string, error) {
	return c.address(ctx, keyvaluePort, "quartet:"+c.Key+"@%s")
}

func (c *Container) address(ctx context.Context, port, form string) (string, error) {
	host, err := c.Host(ctx)
	if err != nil {
		return "", err
	}
	mapped, err := c.MappedPort(ctx, port)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(form, fmt.Sprintf("%s:%s", host, mapped.Port())), nil
}
