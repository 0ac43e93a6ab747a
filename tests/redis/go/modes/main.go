// Modes uses go-redis over TLS, as client of a cluster and as client of a sentinel; started by tests/redis/clients/test_modes.py.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	address := "127.0.0.1:" + os.Getenv("QUARTET_REDIS_PORT")
	pem, err := os.ReadFile(os.Getenv("QUARTET_ROOTS"))
	must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	secure := &tls.Config{RootCAs: roots, ServerName: "localhost"}

	direct := redis.NewClient(&redis.Options{Addr: address, TLSConfig: secure, MaxRetries: -1})
	must(direct.Set(ctx, "go:direct", 1, 0).Err())
	must(direct.Close())

	for _, config := range []*tls.Config{nil, secure} {
		cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, TLSConfig: config, MaxRedirects: 1})
		must(cluster.MSet(ctx, "{go}a", 1, "{go}b", 2).Err())
		must(cluster.Get(ctx, "{go}a").Err())
		masters := 0
		must(cluster.ForEachMaster(ctx, func(ctx context.Context, client *redis.Client) error {
			masters++
			return client.Ping(ctx).Err()
		}))
		if masters != 1 {
			must(fmt.Errorf("%d masters", masters))
		}
		must(cluster.Close())
	}

	asking := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "mymaster", SentinelAddrs: []string{"127.0.0.1:" + os.Getenv("QUARTET_SENTINEL_PORT")}, MaxRetries: -1,
	})
	must(asking.Set(ctx, "go:sentinel", 1, 0).Err())
	must(asking.Close())
	fmt.Println("done")
}
