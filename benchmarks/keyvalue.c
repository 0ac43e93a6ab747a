// Transactions of ten operations, or of one, through libfdb_c, so many under way at once, from callbacks: one program, one network thread.
//
//   keyvalue CLUSTER_FILE load|reads|ranges|writes|mixed|lone TRANSACTIONS_UNDER_WAY SECONDS [KEYS [VALUE_BYTES_MAX [EACH_SECOND [SEED]]]]
//
// prints one line: operations, seconds, the client's CPU seconds, transactions refused, and the median and 99th percentile of a transaction in microseconds.
// There are 100,000 keys of 16 bytes, and values have 8 to 100. The reads of a transaction are asked for together; `mixed` writes once for nine reads, `lone`
// writes once and does nothing else; an operation of `ranges` reads ten rows. With EACH_SECOND 1 a line before the last one has the operations of each second.
// With another SEED other keys: rows that are written again in the order in which they were written last lie in that order in memory.
#define FDB_API_VERSION 730
#include <errno.h>
#include <foundationdb/fdb_c.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { OPERATIONS_MAX = 10, ROWS = 10, LOADED_AT_ONCE = 1000, LOADS_UNDER_WAY = 8, LATENCIES_MAX = 1 << 22 };

typedef struct {
    FDBTransaction *transaction;
    FDBFuture *reads[OPERATIONS_MAX];
    int waiting;
    int failed;
    double began;
    uint64_t random;
} Slot;

static FDBDatabase *database;
static long keys = 100000, seed;
static int value_bytes_max = 100, each_second, operations = OPERATIONS_MAX, reads, writes, reads_ranges;
static FDBTransaction *first;
static int beginning;
static double until;
static long completed, refused;
static int running;
static pthread_mutex_t ended = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_ended = PTHREAD_COND_INITIALIZER;
static float *latencies;

static void check(fdb_error_t code) {
    if (code) {
        fprintf(stderr, "%s (%d)\n", fdb_get_error(code), code);
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void make_key(uint8_t key[16], uint64_t number) {
    memcpy(key, "key_____", 8);
    for (int index = 0; index < 8; index++) key[8 + index] = number >> (56 - 8 * index);
}

static void set(Slot *slot, uint64_t number) {
    uint8_t key[16], value[100];
    make_key(key, number);
    memset(value, (int)number, sizeof value);
    fdb_transaction_set(slot->transaction, key, 16, value, 8 + next(&slot->random) % (value_bytes_max - 7));
}

static void begin(Slot *slot);

static void finish(Slot *slot) {
    fdb_transaction_destroy(slot->transaction);
    if (slot->failed) {
        refused++;
    } else {
        if (completed < LATENCIES_MAX) latencies[completed] = (now() - slot->began) * 1e6;
        completed++;
    }
    if (now() < until) return begin(slot);
    pthread_mutex_lock(&ended);
    if (--running == 0) pthread_cond_signal(&has_ended);
    pthread_mutex_unlock(&ended);
}

static void committed(FDBFuture *future, void *parameter) {
    Slot *slot = parameter;
    slot->failed |= fdb_future_get_error(future);
    fdb_future_destroy(future);
    finish(slot);
}

static void write_and_commit(Slot *slot) {
    if (writes == 0 || slot->failed) return finish(slot);
    for (int index = 0; index < writes; index++) set(slot, next(&slot->random) % keys);
    check(fdb_future_set_callback(fdb_transaction_commit(slot->transaction), committed, slot));
}

static void was_read(FDBFuture *future, void *parameter) {
    Slot *slot = parameter;
    fdb_bool_t present;
    const uint8_t *value;
    const FDBKeyValue *rows;
    int length;
    fdb_error_t code = reads_ranges ? fdb_future_get_keyvalue_array(future, &rows, &length, &present)
                                    : fdb_future_get_value(future, &present, &value, &length);
    slot->failed |= code || (reads_ranges ? length == 0 : !present);
    if (--slot->waiting > 0) return;
    for (int index = 0; index < reads; index++) fdb_future_destroy(slot->reads[index]);
    write_and_commit(slot);
}

static FDBFuture *read_one(Slot *slot) {
    uint8_t key[16];
    make_key(key, next(&slot->random) % keys);
    if (!reads_ranges) return fdb_transaction_get(slot->transaction, key, 16, 0);
    return fdb_transaction_get_range(slot->transaction, key, 16, 0, 1, (const uint8_t *)"l", 1, 0, 1, ROWS, 0, FDB_STREAMING_MODE_EXACT, 0, 0, 0);
}

static void begin(Slot *slot) {
    slot->began = now();
    slot->failed = 0;
    check(fdb_database_create_transaction(database, &slot->transaction));
    if (reads == 0) return write_and_commit(slot);
    slot->waiting = reads;
    for (int index = 0; index < reads; index++) slot->reads[index] = read_one(slot);
    for (int index = 0; index < reads; index++) check(fdb_future_set_callback(slot->reads[index], was_read, slot));
}

// Callbacks come on the network thread, so the first transactions begin there, too. What asked for a version to come there goes before the
// last of them begins: a state that somebody may still read makes every write copy what it changes.
static void begin_first(FDBFuture *future, void *parameter) {
    check(fdb_future_get_error(future));
    fdb_future_destroy(future);
    if (--beginning == 0) fdb_transaction_destroy(first);
    begin(parameter);
}

// How a load that is under way came out, if one is.
static void end_load(Slot *slot) {
    if (slot->reads[0] == NULL) return;
    check(fdb_future_block_until_ready(slot->reads[0]));
    check(fdb_future_get_error(slot->reads[0]));
    fdb_future_destroy(slot->reads[0]);
    fdb_transaction_destroy(slot->transaction);
    slot->reads[0] = NULL;
}

static void load(void) {
    static Slot slots[LOADS_UNDER_WAY];
    for (long first = 0; first < keys; first += LOADED_AT_ONCE) {
        Slot *slot = &slots[first / LOADED_AT_ONCE % LOADS_UNDER_WAY];
        end_load(slot);
        slot->random = 7 + first;
        check(fdb_database_create_transaction(database, &slot->transaction));
        for (int index = 0; index < LOADED_AT_ONCE && first + index < keys; index++) set(slot, first + index);
        slot->reads[0] = fdb_transaction_commit(slot->transaction);
    }
    for (int index = 0; index < LOADS_UNDER_WAY; index++) end_load(&slots[index]);
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static int compare(const void *left, const void *right) {
    float difference = *(const float *)left - *(const float *)right;
    return (difference > 0) - (difference < 0);
}

static void measure(int under_way, double seconds) {
    Slot *slots = calloc(under_way, sizeof *slots);
    latencies = malloc(LATENCIES_MAX * sizeof *latencies);
    running = beginning = under_way;
    double cpu = cpu_seconds(), began = now();
    until = began + seconds;
    check(fdb_database_create_transaction(database, &first));
    for (int index = 0; index < under_way; index++) {
        slots[index].random = 0x9e3779b97f4a7c15u * (index + 1 + seed * under_way);
        check(fdb_future_set_callback(fdb_transaction_get_read_version(first), begin_first, &slots[index]));
    }
    long counted = 0;
    struct timespec second;
    clock_gettime(CLOCK_REALTIME, &second);
    pthread_mutex_lock(&ended);
    while (running > 0) {
        second.tv_sec++;
        if (!each_second) {
            pthread_cond_wait(&has_ended, &ended);
        } else if (pthread_cond_timedwait(&has_ended, &ended, &second) == ETIMEDOUT) {
            long until_now = __atomic_load_n(&completed, __ATOMIC_RELAXED);
            printf("%ld ", (until_now - counted) * operations);
            counted = until_now;
        }
    }
    pthread_mutex_unlock(&ended);
    if (each_second) putchar('\n');
    double took = now() - began;
    long count = completed < LATENCIES_MAX ? completed : LATENCIES_MAX;
    qsort(latencies, count, sizeof *latencies, compare);
    printf("%ld %.3f %.3f %ld %.0f %.0f\n", completed * operations, took, cpu_seconds() - cpu, refused, count ? latencies[count / 2] : 0,
           count ? latencies[count * 99 / 100] : 0);
}

static void *network(void *unused) {
    (void)unused;
    check(fdb_run_network());
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 5 || count > 9) return 2;
    const char *test = arguments[2];
    if (count > 5) keys = atol(arguments[5]);
    if (count > 6) value_bytes_max = atoi(arguments[6]);
    if (count > 7) each_second = atoi(arguments[7]);
    if (count > 8) seed = atol(arguments[8]);
    if (keys < 1 || value_bytes_max < 8 || value_bytes_max > 100) return 2;
    reads_ranges = strcmp(test, "ranges") == 0;
    check(fdb_select_api_version(FDB_API_VERSION));
    check(fdb_setup_network());
    pthread_t thread;
    pthread_create(&thread, NULL, network, NULL);
    check(fdb_create_database(arguments[1], &database));
    if (strcmp(test, "lone") == 0) operations = writes = 1;
    if (strcmp(test, "writes") == 0) writes = operations;
    if (strcmp(test, "mixed") == 0) writes = 1;
    reads = operations - writes;
    if (strcmp(test, "load") == 0)
        load();
    else
        measure(atoi(arguments[3]), atof(arguments[4]));
    fdb_database_destroy(database);
    check(fdb_stop_network());
    pthread_join(thread, NULL);
    return 0;
}
