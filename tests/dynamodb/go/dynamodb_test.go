// Package dynamodb drives the server with the AWS SDK for Go v2; endpoint, region and key come from the environment.
package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func connect(t *testing.T) *dynamodb.Client {
	t.Helper()
	settings, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return dynamodb.NewFromConfig(settings)
}

func text(value string) types.AttributeValue { return &types.AttributeValueMemberS{Value: value} }

func number(value int) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(value)}
}

// table makes a table that is removed after the test.
func table(t *testing.T, client *dynamodb.Client, name string) *string {
	t.Helper()
	ctx := context.Background()
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:   &name,
		BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("p"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("s"), KeyType: types.KeyTypeRange},
		},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("p"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("s"), AttributeType: types.ScalarAttributeTypeN},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	waiter := dynamodb.NewTableExistsWaiter(client)
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, time.Minute); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Error(err)
		}
	})
	return &name
}

func TestItemsComeBack(t *testing.T) {
	client, ctx := connect(t), context.Background()
	name := table(t, client, "go-items")
	item := map[string]types.AttributeValue{
		"p": text("a"), "s": number(1),
		"list":  &types.AttributeValueMemberL{Value: []types.AttributeValue{number(-2), &types.AttributeValueMemberNULL{Value: true}}},
		"bytes": &types.AttributeValueMemberB{Value: []byte{0, 255}},
		"set":   &types.AttributeValueMemberSS{Value: []string{"x", "y"}},
	}
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: name, Item: item}); err != nil {
		t.Fatal(err)
	}
	key := map[string]types.AttributeValue{"p": text("a"), "s": number(1)}
	found, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: name, Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Item) != 5 || string(found.Item["bytes"].(*types.AttributeValueMemberB).Value) != "\x00\xff" {
		t.Fatalf("got %v", found.Item)
	}
}

func TestQueryIsPaginated(t *testing.T) {
	client, ctx := connect(t), context.Background()
	name := table(t, client, "go-pages")
	for index := range 30 {
		item := map[string]types.AttributeValue{"p": text("a"), "s": number(index)}
		if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: name, Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	pages := dynamodb.NewQueryPaginator(client, &dynamodb.QueryInput{
		TableName:                 name,
		Limit:                     aws.Int32(7),
		KeyConditionExpression:    aws.String("p = :p AND s BETWEEN :low AND :high"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": text("a"), ":low": number(5), ":high": number(24)},
	})
	next := 5
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			if item["s"].(*types.AttributeValueMemberN).Value != fmt.Sprint(next) {
				t.Fatalf("expected %d, got %v", next, item)
			}
			next++
		}
	}
	if next != 25 {
		t.Fatalf("ended before %d", next)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	client, ctx := connect(t), context.Background()
	name := table(t, client, "go-errors")
	item := map[string]types.AttributeValue{"p": text("a"), "s": number(1)}
	condition := aws.String("attribute_exists(p)")
	_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: name, Item: item, ConditionExpression: condition})
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	put := types.TransactWriteItem{Put: &types.Put{TableName: name, Item: item, ConditionExpression: condition}}
	_, err = client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{put}})
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) || *cancelled.CancellationReasons[0].Code != "ConditionalCheckFailed" {
		t.Fatalf("got %v", err)
	}
	_, err = client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("nowhere"), Key: item})
	var missing *types.ResourceNotFoundException
	if !errors.As(err, &missing) {
		t.Fatalf("got %v", err)
	}
}

func TestIncrementsAreCountedOnce(t *testing.T) {
	client, ctx := connect(t), context.Background()
	name := table(t, client, "go-count")
	key := map[string]types.AttributeValue{"p": text("a"), "s": number(1)}
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 25 {
				_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
					TableName: name, Key: key,
					UpdateExpression:          aws.String("ADD n :one"),
					ExpressionAttributeValues: map[string]types.AttributeValue{":one": number(1)},
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	group.Wait()
	found, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: name, Key: key})
	if err != nil || found.Item["n"].(*types.AttributeValueMemberN).Value != "200" {
		t.Fatalf("got %v, %v", found, err)
	}
}
