module quartet/tests/dynamodb

go 1.24
