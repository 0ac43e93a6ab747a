//! The operations: one table of names, shapes and handlers.

pub(crate) mod backups;
pub(crate) mod batch;
pub(crate) mod export_filters;
pub(crate) mod exports;
pub(crate) mod imports;
pub(crate) mod insights;
pub(crate) mod items;
pub(crate) mod managed_keys;
pub(crate) mod partiql;
pub(crate) mod policies;
pub(crate) mod read;
pub(crate) mod restore;
pub(crate) mod search;
pub(crate) mod settings;
pub(crate) mod tables;
pub(crate) mod transact;
pub(crate) mod transfers;
pub(crate) mod unsupported;
pub(crate) mod vectors;

use crate::wire::json::Json;
use crate::wire::shape::{ANY_TEXT, Member, Shape, optional, required};
use crate::{DynamoDb, Failure, Outcome, storage::streams};
use Effect::{Deletes, Grows, GrowsIf, Reads, ReadsAtHome};

pub struct Operation {
    pub name: &'static str,
    pub effect: Effect,
    pub input: &'static [Member],
    pub run: fn(&DynamoDb, &Json<'_>) -> Outcome,
}

/// The effect of an operation on the data.
#[derive(Clone, Copy)]
pub enum Effect {
    /// The answer follows from the rows.
    Reads,
    /// Only reads, and the answer follows from the clock or the memory of the home too.
    ReadsAtHome,
    /// Changes data without making the database larger.
    Deletes,
    /// May make the database larger.
    Grows,
    /// May make the database larger if the request puts an item: batches of writes may consist of
    /// deletes only.
    GrowsIf(fn(&Json<'_>) -> bool),
}

/// An operation that exists.
#[derive(Clone, Copy)]
pub struct Target(&'static Operation);

impl Target {
    /// Reads the header X-Amz-Target.
    pub fn parse(header: &str) -> Result<Target, Failure> {
        let (service, name) = header.split_once('.').unwrap_or_default();
        let operations = match service {
            "DynamoDB_20120810" => DATABASE,
            "DynamoDBStreams_20120810" => STREAMS,
            "TrentService" => MANAGED_KEYS,
            _ => &[],
        };
        let operation = operations.iter().find(|operation| operation.name == name);
        operation
            .map(Target)
            .ok_or_else(|| Failure::new(crate::Exception::UnknownOperation, ""))
    }

    /// The names of all operations.
    pub fn names() -> impl Iterator<Item = &'static str> {
        DATABASE
            .iter()
            .chain(STREAMS)
            .chain(MANAGED_KEYS)
            .map(|operation| operation.name)
    }

    pub(crate) fn operation(&self) -> &'static Operation {
        self.0
    }

    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// Returns true if any node with the rows can answer the operation. `None`: the statements of
    /// the request's body say that.
    pub fn reads_rows(&self) -> Option<bool> {
        match partiql::statements_member(self.0.name) {
            Some(_) => None,
            None => Some(matches!(self.0.effect, Reads)),
        }
    }

    /// The same for an operation with statements and the body of its request.
    pub fn statements_read_rows(&self, body: &[u8]) -> bool {
        let Some(member) = partiql::statements_member(self.0.name) else {
            return false;
        };
        Json::parse(body).is_ok_and(|request| partiql::only_selects(&request, member))
    }

    /// Returns true if the operation may change data. PartiQL's operations may, regardless of the
    /// statement.
    pub fn writes(&self) -> bool {
        !matches!(self.0.effect, Reads | ReadsAtHome)
    }

    /// Returns true if the operation of a header X-Amz-Target reads as much as an index holds.
    pub fn takes_long(header: &str) -> bool {
        header.ends_with(".SearchVectors")
    }

    /// Returns true if the request may make the database larger.
    pub fn makes_larger(&self, request: &Json<'_>) -> bool {
        match self.0.effect {
            Reads | ReadsAtHome | Deletes => false,
            Grows => true,
            GrowsIf(puts) => puts(request),
        }
    }
}

#[cfg(test)]
mod members;

/// Every operation of both services.
#[cfg(test)]
pub fn all() -> impl Iterator<Item = &'static Operation> {
    DATABASE.iter().chain(STREAMS)
}

const fn operation(
    name: &'static str,
    effect: Effect,
    input: &'static [Member],
    run: fn(&DynamoDb, &Json<'_>) -> Outcome,
) -> Operation {
    Operation {
        name,
        effect,
        input,
        run,
    }
}

const DATABASE: &[Operation] = &[
    operation("GetItem", Reads, GET, read::get),
    operation("PutItem", Grows, PUT, items::put),
    operation("UpdateItem", Grows, UPDATE, items::update),
    operation("DeleteItem", Deletes, DELETE, items::delete),
    operation("Query", Reads, QUERY, search::query),
    operation("Scan", Reads, SCAN, search::scan),
    operation("BatchGetItem", Reads, BATCH_GET, batch::get),
    operation("BatchWriteItem", GrowsIf(batch::puts), BATCH_WRITE, batch::write),
    operation("TransactGetItems", Reads, TRANSACT_GET, transact::get),
    operation(
        "TransactWriteItems",
        GrowsIf(transact::puts),
        TRANSACT_WRITE,
        transact::write,
    ),
    operation("ExecuteStatement", Grows, STATEMENT, partiql::statement),
    operation("BatchExecuteStatement", Grows, BATCH_STATEMENT, partiql::batch),
    operation("ExecuteTransaction", Grows, TRANSACT_STATEMENT, partiql::transaction),
    operation("CreateTable", Grows, CREATE_TABLE, tables::create),
    operation("DescribeTable", Reads, TABLE, tables::describe),
    operation("UpdateTable", Grows, UPDATE_TABLE, tables::update),
    operation("DeleteTable", Deletes, TABLE, tables::delete),
    operation("ListTables", Reads, LIST_TABLES, tables::list),
    operation(
        "UpdateTimeToLive",
        Grows,
        UPDATE_TIME_TO_LIVE,
        settings::update_time_to_live,
    ),
    operation("DescribeTimeToLive", Reads, TABLE, settings::describe_time_to_live),
    operation("TagResource", Grows, TAG, settings::tag),
    operation("UntagResource", Grows, UNTAG, settings::untag),
    operation("ListTagsOfResource", Reads, RESOURCE, settings::list_tags),
    operation("PutResourcePolicy", Grows, PUT_POLICY, policies::put),
    operation("GetResourcePolicy", Reads, RESOURCE, policies::show),
    operation("DeleteResourcePolicy", Deletes, DELETE_POLICY, policies::delete),
    operation("DescribeLimits", Reads, NOTHING, settings::limits),
    operation("DescribeEndpoints", Reads, NOTHING, settings::endpoints),
    operation(
        "DescribeContinuousBackups",
        ReadsAtHome,
        TABLE,
        settings::continuous_backups,
    ),
    operation(
        "UpdateContinuousBackups",
        Grows,
        UPDATE_CONTINUOUS_BACKUPS,
        settings::update_continuous_backups,
    ),
    operation("CreateBackup", Grows, CREATE_BACKUP, backups::create),
    operation("DescribeBackup", Reads, BACKUP, backups::describe),
    operation("DeleteBackup", Deletes, BACKUP, backups::delete),
    operation("ListBackups", Reads, LIST_BACKUPS, backups::list),
    operation("RestoreTableFromBackup", Grows, RESTORE, restore::from_backup),
    operation(
        "RestoreTableToPointInTime",
        Grows,
        RESTORE_TO,
        restore::to_point_in_time,
    ),
    operation("ExportTableToPointInTime", Grows, EXPORT, exports::begin),
    operation("DescribeExport", Reads, EXPORT_ARN, exports::describe),
    operation("ListExports", Reads, LIST_EXPORTS, exports::list),
    operation("ImportTable", Grows, IMPORT, imports::begin),
    operation("DescribeImport", Reads, IMPORT_ARN, imports::describe),
    operation("ListImports", Reads, LIST_IMPORTS, imports::list),
    operation("StartBulkPutItems", Grows, TABLE, unsupported::bulk_put),
    operation("DescribeBulkOperation", Reads, BULK_ARN, unsupported::bulk_operation),
    operation("CancelBulkOperation", Grows, BULK_ARN, unsupported::bulk_operation),
    operation(
        "ListBulkOperations",
        Reads,
        LIST_BULK,
        unsupported::list_bulk_operations,
    ),
    operation(
        "CreateGlobalTable",
        Grows,
        GLOBAL_TABLE,
        unsupported::create_global_table,
    ),
    operation("DescribeGlobalTable", Reads, GLOBAL_TABLE, unsupported::global_table),
    operation(
        "DescribeGlobalTableSettings",
        Reads,
        GLOBAL_TABLE,
        unsupported::global_table,
    ),
    operation("UpdateGlobalTable", Grows, GLOBAL_TABLE, unsupported::global_table),
    operation(
        "UpdateGlobalTableSettings",
        Grows,
        GLOBAL_TABLE,
        unsupported::global_table,
    ),
    operation("ListGlobalTables", Reads, LIST_GLOBAL, unsupported::list_global_tables),
    operation(
        "DescribeTableReplicaAutoScaling",
        Reads,
        TABLE,
        unsupported::describe_auto_scaling,
    ),
    operation(
        "UpdateTableReplicaAutoScaling",
        Grows,
        TABLE,
        unsupported::update_auto_scaling,
    ),
    operation(
        "DescribeKinesisStreamingDestination",
        Reads,
        TABLE,
        unsupported::describe_kinesis,
    ),
    operation(
        "EnableKinesisStreamingDestination",
        Grows,
        KINESIS,
        unsupported::enable_kinesis,
    ),
    operation(
        "DisableKinesisStreamingDestination",
        Grows,
        KINESIS,
        unsupported::change_kinesis,
    ),
    operation(
        "UpdateKinesisStreamingDestination",
        Grows,
        KINESIS,
        unsupported::change_kinesis,
    ),
    operation("DescribeContributorInsights", Reads, INSIGHTS, insights::describe),
    operation("UpdateContributorInsights", Grows, UPDATE_INSIGHTS, insights::update),
    operation("ListContributorInsights", Reads, LIST_INSIGHTS, insights::list),
    operation("SearchVectors", ReadsAtHome, SEARCH_VECTORS, vectors::search),
];

const STREAMS: &[Operation] = &[
    operation("ListStreams", Reads, LIST_STREAMS, streams::list),
    operation("DescribeStream", Reads, DESCRIBE_STREAM, streams::describe),
    operation("GetShardIterator", ReadsAtHome, SHARD_ITERATOR, streams::shard_iterator),
    operation("GetRecords", ReadsAtHome, RECORDS, streams::records),
];

/// Operations of the key management service on the key that encrypts tables.
const MANAGED_KEYS: &[Operation] = &[operation("DescribeKey", Reads, DESCRIBE_KEY, managed_keys::describe)];

const NOTHING: &[Member] = &[];
const DESCRIBE_KEY: &[Member] = &[required("KeyId", Shape::Text { min: 1, max: 2048 })];
const TABLE_NAME: Member = required("TableName", Shape::TableName);
/// For the operations on a table itself.
const OWN_TABLE_NAME: Member = required("TableName", Shape::OwnTableName);
const TABLE: &[Member] = &[OWN_TABLE_NAME];
const REPORT: Member = optional("ReturnConsumedCapacity", Shape::Choice(&["INDEXES", "TOTAL", "NONE"]));
const METRICS: Member = optional("ReturnItemCollectionMetrics", Shape::Choice(&["SIZE", "NONE"]));
const RETURN_VALUES: Member = optional(
    "ReturnValues",
    Shape::Choice(&["ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW"]),
);
const ON_FAILURE: Member = optional(
    "ReturnValuesOnConditionCheckFailure",
    Shape::Choice(&["ALL_OLD", "NONE"]),
);
const CONDITIONAL_OPERATOR: Member = optional("ConditionalOperator", Shape::Choice(&["OR", "AND"]));
const ITEM_MAP: Shape = Shape::Map {
    of: &Shape::Value,
    min: 0,
    max: usize::MAX,
};
const KEY: Member = required("Key", ITEM_MAP);
const TEXTS: Shape = Shape::Map {
    of: &ANY_TEXT,
    min: 0,
    max: usize::MAX,
};
const NAMES: Member = optional("ExpressionAttributeNames", TEXTS);
const VALUES: Member = optional("ExpressionAttributeValues", ITEM_MAP);
const CONDITION: Member = optional("ConditionExpression", ANY_TEXT);
const PROJECTION_EXPRESSION: Member = optional("ProjectionExpression", ANY_TEXT);
const FILTER: Member = optional("FilterExpression", ANY_TEXT);
const CONSISTENT: Member = optional("ConsistentRead", Shape::Boolean);
const ATTRIBUTES_TO_GET: Member = optional(
    "AttributesToGet",
    Shape::List {
        of: &ANY_TEXT,
        min: 1,
        max: usize::MAX,
    },
);
const OPERATORS: Shape = Shape::Choice(&[
    "IN",
    "NULL",
    "BETWEEN",
    "LT",
    "NOT_CONTAINS",
    "EQ",
    "GT",
    "NOT_NULL",
    "NE",
    "LE",
    "BEGINS_WITH",
    "GE",
    "CONTAINS",
]);
const VALUE_LIST: Member = optional(
    "AttributeValueList",
    Shape::List {
        of: &Shape::Value,
        min: 0,
        max: usize::MAX,
    },
);
const CONDITIONS: Shape = Shape::Map {
    of: &Shape::Structure("Condition", &[required("ComparisonOperator", OPERATORS), VALUE_LIST]),
    min: 0,
    max: usize::MAX,
};
const EXPECTED: Member = optional(
    "Expected",
    Shape::Map {
        of: &Shape::Structure(
            "ExpectedAttributeValue",
            &[
                optional("Value", Shape::Value),
                optional("Exists", Shape::Boolean),
                optional("ComparisonOperator", OPERATORS),
                VALUE_LIST,
            ],
        ),
        min: 0,
        max: usize::MAX,
    },
);
const ATTRIBUTE_UPDATES: Member = optional(
    "AttributeUpdates",
    Shape::Map {
        of: &Shape::Structure(
            "AttributeValueUpdate",
            &[
                optional("Value", Shape::Value),
                optional("Action", Shape::Choice(&["ADD", "DELETE", "PUT"])),
            ],
        ),
        min: 0,
        max: usize::MAX,
    },
);
/// Query checks it together with its other checks of a request.
const LIMIT_OF_QUERY: Member = optional(
    "Limit",
    Shape::Integer {
        min: i64::MIN,
        max: i64::MAX,
    },
);
const LIMIT: Member = optional("Limit", Shape::Integer { min: 1, max: i64::MAX });
const SELECT: Member = optional(
    "Select",
    Shape::Choice(&[
        "SPECIFIC_ATTRIBUTES",
        "COUNT",
        "ALL_ATTRIBUTES",
        "ALL_PROJECTED_ATTRIBUTES",
    ]),
);
const INDEX_NAME: Shape = Shape::Name { min: 3, max: 255 };
const START_KEY: Member = optional("ExclusiveStartKey", ITEM_MAP);
const TOKEN: Member = optional("ClientRequestToken", Shape::Text { min: 1, max: 36 });

const GET: &[Member] = &[
    TABLE_NAME,
    KEY,
    ATTRIBUTES_TO_GET,
    CONSISTENT,
    REPORT,
    PROJECTION_EXPRESSION,
    NAMES,
];
const PUT: &[Member] = &[
    TABLE_NAME,
    required("Item", ITEM_MAP),
    EXPECTED,
    RETURN_VALUES,
    REPORT,
    METRICS,
    CONDITIONAL_OPERATOR,
    CONDITION,
    NAMES,
    VALUES,
    ON_FAILURE,
];
const DELETE: &[Member] = &[
    TABLE_NAME,
    KEY,
    EXPECTED,
    CONDITIONAL_OPERATOR,
    RETURN_VALUES,
    REPORT,
    METRICS,
    CONDITION,
    NAMES,
    VALUES,
    ON_FAILURE,
];
const UPDATE: &[Member] = &[
    TABLE_NAME,
    KEY,
    ATTRIBUTE_UPDATES,
    EXPECTED,
    CONDITIONAL_OPERATOR,
    RETURN_VALUES,
    REPORT,
    METRICS,
    optional("UpdateExpression", ANY_TEXT),
    CONDITION,
    NAMES,
    VALUES,
    ON_FAILURE,
];
const QUERY: &[Member] = &[
    TABLE_NAME,
    optional("IndexName", INDEX_NAME),
    SELECT,
    ATTRIBUTES_TO_GET,
    LIMIT_OF_QUERY,
    CONSISTENT,
    optional("KeyConditions", CONDITIONS),
    optional("QueryFilter", CONDITIONS),
    CONDITIONAL_OPERATOR,
    optional("ScanIndexForward", Shape::Boolean),
    START_KEY,
    REPORT,
    PROJECTION_EXPRESSION,
    FILTER,
    optional("KeyConditionExpression", ANY_TEXT),
    NAMES,
    VALUES,
];
const SCAN: &[Member] = &[
    TABLE_NAME,
    optional("IndexName", INDEX_NAME),
    ATTRIBUTES_TO_GET,
    LIMIT,
    SELECT,
    optional("ScanFilter", CONDITIONS),
    CONDITIONAL_OPERATOR,
    START_KEY,
    REPORT,
    optional("TotalSegments", Shape::Integer { min: 1, max: 1_000_000 }),
    optional("Segment", Shape::Integer { min: 0, max: 999_999 }),
    PROJECTION_EXPRESSION,
    FILTER,
    NAMES,
    VALUES,
    CONSISTENT,
];
/// The keys of BatchGetItem; the operation checks their number itself.
const KEY_REQUESTS: Shape = Shape::Map {
    of: &Shape::Structure(
        "KeysAndAttributes",
        &[
            required(
                "Keys",
                Shape::List {
                    of: &ITEM_MAP,
                    min: 0,
                    max: usize::MAX,
                },
            ),
            ATTRIBUTES_TO_GET,
            CONSISTENT,
            PROJECTION_EXPRESSION,
            NAMES,
        ],
    ),
    min: 0,
    max: 100,
};
const BATCH_GET: &[Member] = &[required("RequestItems", Shape::OfTables(&KEY_REQUESTS)), REPORT];
/// The writes of BatchWriteItem; the operation checks their number itself.
pub const WRITE_REQUESTS: Shape = Shape::Map {
    of: &Shape::List {
        of: &Shape::Structure(
            "WriteRequest",
            &[
                optional(
                    "PutRequest",
                    Shape::Structure("PutRequest", &[required("Item", ITEM_MAP)]),
                ),
                optional("DeleteRequest", Shape::Structure("DeleteRequest", &[KEY])),
            ],
        ),
        min: 0,
        max: usize::MAX,
    },
    min: 0,
    max: 25,
};
const BATCH_WRITE: &[Member] = &[
    required("RequestItems", Shape::OfTables(&WRITE_REQUESTS)),
    REPORT,
    METRICS,
];
const TRANSACT_GET: &[Member] = &[
    required(
        "TransactItems",
        Shape::List {
            of: &Shape::Structure(
                "TransactGetItem",
                &[required(
                    "Get",
                    Shape::Structure("Get", &[KEY, TABLE_NAME, PROJECTION_EXPRESSION, NAMES]),
                )],
            ),
            min: 1,
            max: 100,
        },
    ),
    REPORT,
];
const TRANSACT_WRITE: &[Member] = &[
    required(
        "TransactItems",
        Shape::List {
            of: &Shape::Structure(
                "TransactWriteItem",
                &[
                    optional(
                        "ConditionCheck",
                        Shape::Structure(
                            "ConditionCheck",
                            &[
                                KEY,
                                TABLE_NAME,
                                required("ConditionExpression", ANY_TEXT),
                                NAMES,
                                VALUES,
                                ON_FAILURE,
                            ],
                        ),
                    ),
                    optional(
                        "Put",
                        Shape::Structure(
                            "Put",
                            &[
                                required("Item", ITEM_MAP),
                                TABLE_NAME,
                                CONDITION,
                                NAMES,
                                VALUES,
                                ON_FAILURE,
                            ],
                        ),
                    ),
                    optional(
                        "Delete",
                        Shape::Structure("Delete", &[KEY, TABLE_NAME, CONDITION, NAMES, VALUES, ON_FAILURE]),
                    ),
                    optional(
                        "Update",
                        Shape::Structure(
                            "Update",
                            &[
                                KEY,
                                required("UpdateExpression", ANY_TEXT),
                                TABLE_NAME,
                                CONDITION,
                                NAMES,
                                VALUES,
                                ON_FAILURE,
                            ],
                        ),
                    ),
                ],
            ),
            min: 1,
            max: 100,
        },
    ),
    REPORT,
    METRICS,
    TOKEN,
];
const PARAMETERS: Member = optional(
    "Parameters",
    Shape::List {
        of: &Shape::Value,
        min: 1,
        max: usize::MAX,
    },
);
const STATEMENT_TEXT: Member = required("Statement", Shape::Text { min: 1, max: 8192 });
const STATEMENT: &[Member] = &[
    STATEMENT_TEXT,
    PARAMETERS,
    CONSISTENT,
    optional("NextToken", Shape::Text { min: 1, max: 32768 }),
    REPORT,
    LIMIT,
    ON_FAILURE,
];
const BATCH_STATEMENT: &[Member] = &[
    required(
        "Statements",
        Shape::List {
            of: &Shape::Structure(
                "BatchStatementRequest",
                &[STATEMENT_TEXT, PARAMETERS, CONSISTENT, ON_FAILURE],
            ),
            min: 1,
            max: 25,
        },
    ),
    REPORT,
];
const TRANSACT_STATEMENT: &[Member] = &[
    required(
        "TransactStatements",
        Shape::List {
            of: &Shape::Structure("ParameterizedStatement", &[STATEMENT_TEXT, PARAMETERS, ON_FAILURE]),
            min: 1,
            max: 100,
        },
    ),
    TOKEN,
    REPORT,
];

const ATTRIBUTE_NAME: Shape = Shape::Text { min: 1, max: 255 };
const KEY_ELEMENT: Shape = Shape::Structure(
    "KeySchemaElement",
    &[
        required("AttributeName", ATTRIBUTE_NAME),
        required("KeyType", Shape::Choice(&["HASH", "RANGE"])),
    ],
);
const KEY_SCHEMA: Member = required(
    "KeySchema",
    Shape::List {
        of: &KEY_ELEMENT,
        min: 1,
        max: 2,
    },
);
/// The keys of a global index, which may have four attributes of each kind.
const GLOBAL_KEY_SCHEMA: Member = required(
    "KeySchema",
    Shape::List {
        of: &KEY_ELEMENT,
        min: 1,
        max: 8,
    },
);
const DEFINITION_LIST: Shape = Shape::List {
    of: &Shape::Structure(
        "AttributeDefinition",
        &[
            required("AttributeName", ATTRIBUTE_NAME),
            required("AttributeType", Shape::Choice(&["B", "N", "S"])),
        ],
    ),
    min: 0,
    max: usize::MAX,
};
const UNITS: Shape = Shape::Long { min: 1, max: i64::MAX };
const THROUGHPUT_SHAPE: Shape = Shape::Structure(
    "ProvisionedThroughput",
    &[
        required("ReadCapacityUnits", UNITS),
        required("WriteCapacityUnits", UNITS),
    ],
);
const THROUGHPUT: Member = optional("ProvisionedThroughput", THROUGHPUT_SHAPE);
const ANY_LONG: Shape = Shape::Long {
    min: i64::MIN,
    max: i64::MAX,
};
const ON_DEMAND_SHAPE: Shape = Shape::Structure(
    "OnDemandThroughput",
    &[
        optional("MaxReadRequestUnits", ANY_LONG),
        optional("MaxWriteRequestUnits", ANY_LONG),
    ],
);
const ON_DEMAND: Member = optional("OnDemandThroughput", ON_DEMAND_SHAPE);
const WARM: Member = optional(
    "WarmThroughput",
    Shape::Structure(
        "WarmThroughput",
        &[
            optional("ReadUnitsPerSecond", UNITS),
            optional("WriteUnitsPerSecond", UNITS),
        ],
    ),
);
const PROJECTION: Member = required(
    "Projection",
    Shape::Structure(
        "Projection",
        &[
            optional("ProjectionType", Shape::Choice(&["ALL", "INCLUDE", "KEYS_ONLY"])),
            optional(
                "NonKeyAttributes",
                Shape::List {
                    of: &ATTRIBUTE_NAME,
                    min: 1,
                    max: 20,
                },
            ),
        ],
    ),
);
const GLOBAL_INDEX: &[Member] = &[
    required("IndexName", INDEX_NAME),
    GLOBAL_KEY_SCHEMA,
    PROJECTION,
    THROUGHPUT,
    ON_DEMAND,
    WARM,
];
const LOCAL_INDEX: &[Member] = &[required("IndexName", INDEX_NAME), KEY_SCHEMA, PROJECTION];
const BILLING: Member = optional("BillingMode", Shape::Choice(&["PROVISIONED", "PAY_PER_REQUEST"]));
const STREAM: Member = optional(
    "StreamSpecification",
    Shape::Structure(
        "StreamSpecification",
        &[
            required("StreamEnabled", Shape::Boolean),
            optional(
                "StreamViewType",
                Shape::Choice(&["NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES", "KEYS_ONLY"]),
            ),
        ],
    ),
);
const ENCRYPTION_SHAPE: Shape = Shape::Structure(
    "SSESpecification",
    &[
        optional("Enabled", Shape::Boolean),
        optional("SSEType", Shape::Choice(&["AES256", "KMS"])),
        optional("KMSMasterKeyId", ANY_TEXT),
    ],
);
const ENCRYPTION: Member = optional("SSESpecification", ENCRYPTION_SHAPE);
const TAG_LIST: Shape = Shape::List {
    of: &Shape::Structure("Tag", &[required("Key", ANY_TEXT), required("Value", ANY_TEXT)]),
    min: 0,
    max: usize::MAX,
};
const TABLE_CLASS: Member = optional("TableClass", Shape::Choice(&["STANDARD", "STANDARD_INFREQUENT_ACCESS"]));
const PROTECTION: Member = optional("DeletionProtectionEnabled", Shape::Boolean);
const VECTOR_INDEX: &[Member] = &[
    required("IndexName", INDEX_NAME),
    required(
        "VectorAttribute",
        Shape::Structure(
            "VectorAttributeDefinition",
            &[required("AttributeName", ATTRIBUTE_NAME)],
        ),
    ),
    optional(
        "SearchSchema",
        Shape::List {
            of: &Shape::Structure(
                "SearchSchemaElement",
                &[
                    required("AttributeName", ATTRIBUTE_NAME),
                    required("SearchSchemaElementType", Shape::Choice(&["HASH", "INLINE_FILTER"])),
                ],
            ),
            min: 1,
            max: usize::MAX,
        },
    ),
    PROJECTION,
    required("Dimensions", UNITS),
    required(
        "DistanceFunction",
        Shape::Choice(&["COSINE", "DOT_PRODUCT", "EUCLIDEAN"]),
    ),
];
const VECTOR_INDEX_LIST: Shape = Shape::List {
    of: &Shape::Structure("VectorIndex", VECTOR_INDEX),
    min: 0,
    max: usize::MAX,
};
const NO_REGIONS: Shape = Shape::Refused("there are no other regions");
/// How settings spread to replicas; there are no replicas.
const SETTINGS_REPLICATION: Member = optional("GlobalTableSettingsReplicationMode", Shape::PassedOver);
const CREATE_TABLE: &[Member] = &[
    required("AttributeDefinitions", DEFINITION_LIST),
    OWN_TABLE_NAME,
    KEY_SCHEMA,
    optional(
        "LocalSecondaryIndexes",
        Shape::List {
            of: &Shape::Structure("LocalSecondaryIndex", LOCAL_INDEX),
            min: 0,
            max: usize::MAX,
        },
    ),
    optional(
        "GlobalSecondaryIndexes",
        Shape::List {
            of: &Shape::Structure("GlobalSecondaryIndex", GLOBAL_INDEX),
            min: 0,
            max: usize::MAX,
        },
    ),
    BILLING,
    THROUGHPUT,
    STREAM,
    ENCRYPTION,
    optional("Tags", TAG_LIST),
    TABLE_CLASS,
    PROTECTION,
    ON_DEMAND,
    WARM,
    optional("ResourcePolicy", ANY_TEXT),
    optional("VectorIndexes", VECTOR_INDEX_LIST),
    optional("GlobalTableSourceArn", NO_REGIONS),
    SETTINGS_REPLICATION,
];
const UPDATE_TABLE: &[Member] = &[
    optional("AttributeDefinitions", DEFINITION_LIST),
    OWN_TABLE_NAME,
    BILLING,
    THROUGHPUT,
    optional(
        "GlobalSecondaryIndexUpdates",
        Shape::List {
            of: &Shape::Structure(
                "GlobalSecondaryIndexUpdate",
                &[
                    optional(
                        "Update",
                        Shape::Structure(
                            "UpdateGlobalSecondaryIndexAction",
                            &[required("IndexName", INDEX_NAME), THROUGHPUT, ON_DEMAND, WARM],
                        ),
                    ),
                    optional(
                        "Create",
                        Shape::Structure("CreateGlobalSecondaryIndexAction", GLOBAL_INDEX),
                    ),
                    optional(
                        "Delete",
                        Shape::Structure("DeleteGlobalSecondaryIndexAction", &[required("IndexName", INDEX_NAME)]),
                    ),
                ],
            ),
            min: 0,
            max: usize::MAX,
        },
    ),
    STREAM,
    ENCRYPTION,
    TABLE_CLASS,
    PROTECTION,
    ON_DEMAND,
    WARM,
    optional(
        "VectorIndexUpdates",
        Shape::List {
            of: &Shape::Structure(
                "VectorIndexUpdate",
                &[
                    optional("Create", Shape::Structure("CreateVectorIndexAction", VECTOR_INDEX)),
                    optional(
                        "Delete",
                        Shape::Structure("DeleteVectorIndexAction", &[required("IndexName", INDEX_NAME)]),
                    ),
                ],
            ),
            min: 0,
            max: usize::MAX,
        },
    ),
    optional("MultiRegionConsistency", NO_REGIONS),
    optional("GlobalTableWitnessUpdates", NO_REGIONS),
    SETTINGS_REPLICATION,
    optional("DisassociationProtectionEnabled", Shape::PassedOver),
];
const LIST_TABLES: &[Member] = &[
    optional("ExclusiveStartTableName", Shape::Name { min: 3, max: 255 }),
    optional("Limit", Shape::Integer { min: 1, max: 100 }),
];
const UPDATE_TIME_TO_LIVE: &[Member] = &[
    TABLE_NAME,
    required(
        "TimeToLiveSpecification",
        Shape::Structure(
            "TimeToLiveSpecification",
            &[
                required("Enabled", Shape::Boolean),
                required("AttributeName", ATTRIBUTE_NAME),
            ],
        ),
    ),
];
const RESOURCE_ARN: Member = required("ResourceArn", Shape::Text { min: 1, max: 1283 });
const RESOURCE: &[Member] = &[RESOURCE_ARN, optional("NextToken", ANY_TEXT)];
const TAG: &[Member] = &[RESOURCE_ARN, required("Tags", TAG_LIST)];
const UNTAG: &[Member] = &[
    RESOURCE_ARN,
    required(
        "TagKeys",
        Shape::List {
            of: &ANY_TEXT,
            min: 0,
            max: usize::MAX,
        },
    ),
];
const ARN: Shape = Shape::Text { min: 37, max: 1024 };
const CREATE_BACKUP: &[Member] = &[TABLE_NAME, required("BackupName", Shape::Name { min: 3, max: 255 })];
const BACKUP: &[Member] = &[required("BackupArn", ARN)];
const LIST_BACKUPS: &[Member] = &[
    optional("TableName", Shape::TableName),
    optional("Limit", Shape::Integer { min: 1, max: 100 }),
    optional("TimeRangeLowerBound", ANY_LONG),
    optional("TimeRangeUpperBound", ANY_LONG),
    optional("ExclusiveStartBackupArn", ARN),
    optional("BackupType", Shape::Choice(&["USER", "SYSTEM", "AWS_BACKUP", "ALL"])),
];
const TARGET_TABLE: Member = required("TargetTableName", Shape::Name { min: 3, max: 255 });
const BILLING_OVERRIDE: Member = optional(
    "BillingModeOverride",
    Shape::Choice(&["PROVISIONED", "PAY_PER_REQUEST"]),
);
const GLOBAL_OVERRIDE: Member = optional(
    "GlobalSecondaryIndexOverride",
    Shape::List {
        of: &Shape::Structure("GlobalSecondaryIndex", GLOBAL_INDEX),
        min: 0,
        max: usize::MAX,
    },
);
const LOCAL_OVERRIDE: Member = optional(
    "LocalSecondaryIndexOverride",
    Shape::List {
        of: &Shape::Structure("LocalSecondaryIndex", LOCAL_INDEX),
        min: 0,
        max: usize::MAX,
    },
);
const THROUGHPUT_OVERRIDE: Member = optional("ProvisionedThroughputOverride", THROUGHPUT_SHAPE);
const ON_DEMAND_OVERRIDE: Member = optional("OnDemandThroughputOverride", ON_DEMAND_SHAPE);
const ENCRYPTION_OVERRIDE: Member = optional("SSESpecificationOverride", ENCRYPTION_SHAPE);
const VECTOR_OVERRIDE: Member = optional("VectorIndexOverride", VECTOR_INDEX_LIST);
const RESTORE: &[Member] = &[
    TARGET_TABLE,
    required("BackupArn", ARN),
    BILLING_OVERRIDE,
    GLOBAL_OVERRIDE,
    LOCAL_OVERRIDE,
    THROUGHPUT_OVERRIDE,
    ON_DEMAND_OVERRIDE,
    ENCRYPTION_OVERRIDE,
    VECTOR_OVERRIDE,
];
const RESTORE_TO: &[Member] = &[
    optional("SourceTableArn", Shape::TableName),
    optional("SourceTableName", Shape::TableName),
    TARGET_TABLE,
    optional("UseLatestRestorableTime", Shape::Boolean),
    optional("RestoreDateTime", ANY_LONG),
    BILLING_OVERRIDE,
    GLOBAL_OVERRIDE,
    LOCAL_OVERRIDE,
    THROUGHPUT_OVERRIDE,
    ON_DEMAND_OVERRIDE,
    ENCRYPTION_OVERRIDE,
    VECTOR_OVERRIDE,
];
const BUCKET: Member = required("S3Bucket", Shape::Text { min: 0, max: 255 });
const CLIENT_TOKEN: Member = optional("ClientToken", ANY_TEXT);
const S3_PREFIX: Shape = Shape::Text { min: 0, max: 1024 };
const EXPORT: &[Member] = &[
    required("TableArn", Shape::TableName),
    optional("ExportTime", ANY_LONG),
    CLIENT_TOKEN,
    BUCKET,
    optional("S3BucketOwner", ANY_TEXT),
    optional("S3Prefix", S3_PREFIX),
    optional("S3SseAlgorithm", Shape::Choice(&["AES256", "KMS"])),
    optional("S3SseKmsKeyId", Shape::Text { min: 1, max: 2048 }),
    optional("ExportFormat", Shape::Choice(&["DYNAMODB_JSON", "ION"])),
    optional("ExportType", Shape::Choice(&["FULL_EXPORT", "INCREMENTAL_EXPORT"])),
    optional(
        "IncrementalExportSpecification",
        Shape::Structure(
            "IncrementalExportSpecification",
            &[
                optional("ExportFromTime", ANY_LONG),
                optional("ExportToTime", ANY_LONG),
                optional("ExportViewType", Shape::Choice(&["NEW_IMAGE", "NEW_AND_OLD_IMAGES"])),
            ],
        ),
    ),
    optional(
        "FilterSpecification",
        Shape::Structure(
            "FilterSpecification",
            &[
                FILTER,
                PROJECTION_EXPRESSION,
                optional("KeyConditionExpression", ANY_TEXT),
                NAMES,
                VALUES,
            ],
        ),
    ),
];
const LIST_EXPORTS: &[Member] = &[
    optional("TableArn", Shape::TableName),
    optional("MaxResults", Shape::Integer { min: 1, max: 25 }),
    optional("NextToken", ANY_TEXT),
];
const IMPORT: &[Member] = &[
    CLIENT_TOKEN,
    required(
        "S3BucketSource",
        Shape::Structure(
            "S3BucketSource",
            &[
                optional("S3BucketOwner", ANY_TEXT),
                BUCKET,
                optional("S3KeyPrefix", S3_PREFIX),
            ],
        ),
    ),
    required("InputFormat", Shape::Choice(&["DYNAMODB_JSON", "ION", "CSV"])),
    optional(
        "InputFormatOptions",
        Shape::Structure(
            "InputFormatOptions",
            &[optional(
                "Csv",
                Shape::Structure(
                    "CsvOptions",
                    &[
                        optional("Delimiter", Shape::Text { min: 1, max: 1 }),
                        optional(
                            "HeaderList",
                            Shape::List {
                                of: &Shape::Text { min: 1, max: 65_536 },
                                min: 1,
                                max: 255,
                            },
                        ),
                    ],
                ),
            )],
        ),
    ),
    optional("InputCompressionType", Shape::Choice(&["GZIP", "ZSTD", "NONE"])),
    required(
        "TableCreationParameters",
        Shape::Structure("TableCreationParameters", IMPORTED_TABLE),
    ),
];
const IMPORTED_TABLE: &[Member] = &[
    required("TableName", Shape::Name { min: 3, max: 255 }),
    required("AttributeDefinitions", DEFINITION_LIST),
    KEY_SCHEMA,
    BILLING,
    THROUGHPUT,
    ON_DEMAND,
    ENCRYPTION,
    optional(
        "GlobalSecondaryIndexes",
        Shape::List {
            of: &Shape::Structure("GlobalSecondaryIndex", GLOBAL_INDEX),
            min: 0,
            max: usize::MAX,
        },
    ),
    optional("VectorIndexes", VECTOR_INDEX_LIST),
];
const LIST_IMPORTS: &[Member] = &[
    optional("TableArn", Shape::TableName),
    optional("PageSize", Shape::Integer { min: 1, max: 25 }),
    optional("NextToken", ANY_TEXT),
];
const EXPORT_ARN: &[Member] = &[required("ExportArn", ARN)];
const IMPORT_ARN: &[Member] = &[required("ImportArn", ARN)];
const BULK_ARN: &[Member] = &[required("BulkOperationArn", ANY_TEXT)];
const LIST_BULK: &[Member] = &[
    optional("MaxResults", Shape::PassedOver),
    optional("NextToken", Shape::PassedOver),
];
const LIST_GLOBAL: &[Member] = &[
    optional("ExclusiveStartGlobalTableName", Shape::PassedOver),
    optional("Limit", Shape::PassedOver),
    optional("RegionName", Shape::PassedOver),
];
const GLOBAL_TABLE: &[Member] = &[required("GlobalTableName", Shape::Name { min: 3, max: 255 })];
const KINESIS: &[Member] = &[TABLE_NAME, required("StreamArn", ARN)];
const INSIGHTS: &[Member] = &[TABLE_NAME, optional("IndexName", INDEX_NAME)];
const UPDATE_INSIGHTS: &[Member] = &[
    TABLE_NAME,
    optional("IndexName", INDEX_NAME),
    required("ContributorInsightsAction", Shape::Choice(&["ENABLE", "DISABLE"])),
    optional(
        "ContributorInsightsMode",
        Shape::Choice(&["ACCESSED_AND_THROTTLED_KEYS", "THROTTLED_KEYS"]),
    ),
];
const LIST_INSIGHTS: &[Member] = &[
    optional("TableName", Shape::TableName),
    optional("NextToken", ANY_TEXT),
    optional("MaxResults", Shape::Integer { min: 0, max: 100 }),
];
const SEARCH_VECTORS: &[Member] = &[
    TABLE_NAME,
    required("IndexName", INDEX_NAME),
    REPORT,
    NAMES,
    VALUES,
    PROJECTION_EXPRESSION,
    required(
        "SearchVector",
        Shape::List {
            of: &Shape::Value,
            min: 1,
            max: 4096,
        },
    ),
    optional("SearchConditionExpression", ANY_TEXT),
    required("TopK", Shape::Integer { min: 1, max: i64::MAX }),
];
const REVISION: Member = optional("ExpectedRevisionId", Shape::Text { min: 1, max: 255 });
const PUT_POLICY: &[Member] = &[
    RESOURCE_ARN,
    required("Policy", ANY_TEXT),
    REVISION,
    optional("ConfirmRemoveSelfResourceAccess", Shape::PassedOver),
];
const DELETE_POLICY: &[Member] = &[RESOURCE_ARN, REVISION];
const UPDATE_CONTINUOUS_BACKUPS: &[Member] = &[
    OWN_TABLE_NAME,
    required(
        "PointInTimeRecoverySpecification",
        Shape::Structure(
            "PointInTimeRecoverySpecification",
            &[
                required("PointInTimeRecoveryEnabled", Shape::Boolean),
                optional("RecoveryPeriodInDays", Shape::Integer { min: 1, max: 35 }),
            ],
        ),
    ),
];

const STREAM_ARN: Member = required("StreamArn", Shape::Text { min: 37, max: 1024 });
const LIST_STREAMS: &[Member] = &[
    optional("TableName", Shape::TableName),
    optional("Limit", Shape::Integer { min: 1, max: 100 }),
    optional("ExclusiveStartStreamArn", Shape::Text { min: 37, max: 1024 }),
];
const DESCRIBE_STREAM: &[Member] = &[
    STREAM_ARN,
    optional("Limit", Shape::Integer { min: 1, max: 100 }),
    optional("ExclusiveStartShardId", Shape::Text { min: 28, max: 65 }),
    optional(
        "ShardFilter",
        Shape::Structure(
            "ShardFilter",
            &[
                required("Type", Shape::Choice(&["CHILD_SHARDS"])),
                required("ShardId", Shape::Text { min: 28, max: 65 }),
            ],
        ),
    ),
];
const SHARD_ITERATOR: &[Member] = &[
    STREAM_ARN,
    required("ShardId", Shape::Text { min: 28, max: 65 }),
    required(
        "ShardIteratorType",
        Shape::Choice(&["AFTER_SEQUENCE_NUMBER", "LATEST", "AT_SEQUENCE_NUMBER", "TRIM_HORIZON"]),
    ),
    optional("SequenceNumber", Shape::Text { min: 21, max: 40 }),
    optional(
        "Timestamp",
        Shape::Refused("records are found by their sequence numbers"),
    ),
];
const RECORDS: &[Member] = &[
    required("ShardIterator", Shape::Text { min: 1, max: 2048 }),
    optional("Limit", Shape::Integer { min: 1, max: 1000 }),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks if requests write, and if they may make the database larger.
    fn check(operation: &str, request: &str, writes: bool, grows: bool) {
        let target = Target::parse(&format!("DynamoDB_20120810.{operation}")).unwrap();
        let request = Json::parse(request.as_bytes()).unwrap();
        assert_eq!(
            (target.writes(), target.makes_larger(&request)),
            (writes, grows),
            "{operation}"
        );
    }

    /// SearchVectors was a write, since an operation was a write unless its name started like one
    /// of those that read. Now each row of the table says it.
    #[test]
    fn the_effect_of_an_operation_is_a_column_of_the_table() {
        check("GetItem", "{}", false, false);
        check("SearchVectors", "{}", false, false);
        check("PutItem", "{}", true, true);
        check("DeleteItem", "{}", true, false);
        check("DeleteTable", "{}", true, false);
        check("ExecuteStatement", "{}", true, true);
        let deletes = r#"{"RequestItems":{"t":[{"DeleteRequest":{}}]}}"#;
        check("BatchWriteItem", deletes, true, false);
        let puts = r#"{"RequestItems":{"t":[{"DeleteRequest":{}},{"PutRequest":{}}]}}"#;
        check("BatchWriteItem", puts, true, true);
        check(
            "TransactWriteItems",
            r#"{"TransactItems":[{"Delete":{}}]}"#,
            true,
            false,
        );
        check(
            "TransactWriteItems",
            r#"{"TransactItems":[{"Delete":{}},{"Update":{}}]}"#,
            true,
            true,
        );
    }
}
