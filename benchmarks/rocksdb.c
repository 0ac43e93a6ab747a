// RocksDB used directly, as crates/store/benches/beyond_memory.rs uses the ssd engine's store: the same keys, values and choices,
// no write-ahead log, the same cache.
//
//   cc -O2 benchmarks/rocksdb.c -lrocksdb -o target/benchmarks/rocksdb
//   target/benchmarks/rocksdb DIRECTORY GIGABYTES CACHE_MEBIBYTES SECONDS BUFFER_MEBIBYTES
//
// An empty directory is filled; with no seconds that is all.

#include <rocksdb/c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROW_BYTES (16 + 54)

static uint64_t mixed(uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
  return number ^ (number >> 31);
}

static uint64_t state = 1;
static uint64_t next(void) { return mixed(state += 0x9e3779b97f4a7c15ULL); }

static void big_endian(uint64_t number, char *out) {
  for (int i = 7; i >= 0; i--, number >>= 8) out[i] = (char)number;
}

// Ascending, and as far apart as they can be, so that an empty directory is filled in order.
static uint64_t apart;

static void key_of(uint64_t number, char key[16]) {
  big_endian(number * apart, key);
  big_endian(mixed(number + 0x9e3779b97f4a7c15ULL), key + 8);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void check(char *error) {
  if (error) {
    fprintf(stderr, "%s\n", error);
    exit(1);
  }
}

static rocksdb_t *db;
static rocksdb_writeoptions_t *write_options;
static rocksdb_readoptions_t *read_options;
static char value[128];

static void put(uint64_t number) {
  char key[16], *error = NULL;
  size_t bytes = 8 + next() % 93;
  key_of(number, key);
  rocksdb_put(db, write_options, key, 16, value, bytes, &error);
  check(error);
}

static void get(uint64_t number) {
  char key[16], *error = NULL;
  key_of(number, key);
  rocksdb_pinnableslice_t *found = rocksdb_get_pinned(db, read_options, key, 16, &error);
  check(error);
  if (!found) check("a key is missing");
  rocksdb_pinnableslice_destroy(found);
}

static double run(uint64_t rows, uint64_t reads_in_ten, double seconds) {
  double began = now();
  uint64_t done = 0;
  for (; now() - began < seconds; done += 100)
    for (int i = 0; i < 100; i++) {
      uint64_t number = next() % rows;
      if (next() % 10 < reads_in_ten) get(number); else put(number);
    }
  return done / (now() - began);
}

int main(int count, char **arguments) {
  if (count != 6) {
    fprintf(stderr, "rocksdb DIRECTORY GIGABYTES CACHE_MEBIBYTES SECONDS BUFFER_MEBIBYTES\n");
    return 2;
  }
  uint64_t rows = (uint64_t)(atof(arguments[2]) * 1e9) / ROW_BYTES;
  apart = UINT64_MAX / rows;
  double seconds = atof(arguments[4]);
  char *error = NULL;
  memset(value, 'v', sizeof value);
  rocksdb_options_t *options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_compression(options, rocksdb_no_compression);
  rocksdb_options_increase_parallelism(options, 2);
  rocksdb_options_set_write_buffer_size(options, (size_t)atoi(arguments[5]) << 20);
  rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru((size_t)(atof(arguments[3]) * (1 << 20))));
  rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
  rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10));
  rocksdb_options_set_block_based_table_factory(options, table);
  db = rocksdb_open(options, arguments[1], &error);
  check(error);
  write_options = rocksdb_writeoptions_create();
  rocksdb_writeoptions_disable_WAL(write_options, 1);
  read_options = rocksdb_readoptions_create();
  char key[16];
  key_of(rows - 1, key);
  rocksdb_pinnableslice_t *last = rocksdb_get_pinned(db, read_options, key, 16, &error);
  check(error);
  if (last) {
    rocksdb_pinnableslice_destroy(last);
  } else {
    double began = now();
    for (uint64_t number = 0; number < rows; number++) put(number);
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    rocksdb_flush(db, flush, &error);
    check(error);
    printf("fill %.0f\n", rows / (now() - began));
  }
  if (seconds > 0) {
    printf("reads %.0f\n", run(rows, 10, seconds));
    printf("90/10 %.0f\n", run(rows, 9, seconds));
  }
  rocksdb_close(db);
  return 0;
}
