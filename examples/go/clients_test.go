// Package clients shows Go's clients of each layer. The addresses are in the variables that REDIS_URL and the AWS SDK have
// usually, and FAUNA_ENDPOINT; `go test` runs all of them.
package clients

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	f "github.com/fauna/faunadb-go/v4/faunadb"
	"github.com/redis/go-redis/v9"
)

func TestRedis(t *testing.T) {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	check(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	check(t, client.Set(t.Context(), "go:greeting", "hello", 0).Err())
	greeting, err := client.Get(t.Context(), "go:greeting").Result()
	check(t, err)
	expect(t, greeting, "hello")
}

func TestRest(t *testing.T) {
	request, err := http.NewRequestWithContext(t.Context(), "POST", os.Getenv("UPSTASH_REDIS_REST_URL"), strings.NewReader(`["INCR", "go:visits"]`))
	check(t, err)
	request.Header.Set("Authorization", "Bearer "+os.Getenv("UPSTASH_REDIS_REST_TOKEN"))
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(t, err)
	expect(t, string(body), `{"result":1}`)
}

func TestDynamoDB(t *testing.T) {
	ctx := context.Background()
	settings, err := config.LoadDefaultConfig(ctx)
	check(t, err)
	client := dynamodb.NewFromConfig(settings)
	_, err = client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            aws.String("go-notes"),
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
	})
	check(t, err)
	key := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}}
	_, err = client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("go-notes"), Item: key})
	check(t, err)
	found, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("go-notes"), Key: key})
	check(t, err)
	expect(t, found.Item["id"].(*types.AttributeValueMemberS).Value, "1")
}

func TestFauna(t *testing.T) {
	client := f.NewFaunaClient(os.Getenv("FAUNA_SECRET"), f.Endpoint(os.Getenv("FAUNA_ENDPOINT")))
	_, err := client.Query(f.CreateCollection(f.Obj{"name": "go_people"}))
	check(t, err)
	reference := f.Ref(f.Collection("go_people"), "1")
	_, err = client.Query(f.Create(reference, f.Obj{"data": f.Obj{"name": "Ann"}}))
	check(t, err)
	found, err := client.Query(f.Select(f.Arr{"data", "name"}, f.Get(reference)))
	check(t, err)
	var name string
	check(t, found.Get(&name))
	expect(t, name, "Ann")
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, found, wanted string) {
	t.Helper()
	if found != wanted {
		t.Fatalf("%q in the place of %q", found, wanted)
	}
}
