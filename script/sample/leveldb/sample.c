/* A C program of LevelDB's. Usage: sample_c DIRECTORY */
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(char* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", error);
  exit(1);
}

static int filter_answer = 1;
static char* create_filter(void* state, const char* const* keys, const size_t* sizes, int count,
                           size_t* bytes) {
  char* filter = malloc(1);
  (void)state, (void)keys, (void)sizes, (void)count;
  filter[0] = 'f';
  *bytes = 1;
  return filter;
}
static uint8_t may_match(void* state, const char* key, size_t key_bytes, const char* filter,
                         size_t bytes) {
  (void)state, (void)key, (void)key_bytes;
  return bytes == 1 && filter[0] == 'f' ? (uint8_t)filter_answer : 2;
}
static const char* filter_name(void* state) {
  (void)state;
  return "sample filter";
}
static void gone(void* state) { puts((const char*)state); }

static void print_value(leveldb_t* db, const leveldb_readoptions_t* read) {
  char* error = NULL;
  size_t bytes = 0;
  char* value = leveldb_get(db, read, "apple", 5, &bytes, &error);
  check(error);
  printf("apple: %.*s\n", value == NULL ? 4 : (int)bytes, value == NULL ? "none" : value);
  leveldb_free(value);
}

int main(int argc, char** argv) {
  char* error = NULL;
  static char filter_gone[] = "the policy is gone";
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_filterpolicy_t* filter =
      leveldb_filterpolicy_create(filter_gone, gone, create_filter, may_match, filter_name);
  leveldb_cache_t* cache = leveldb_cache_create_lru(1000000);
  leveldb_t* db;
  leveldb_iterator_t* iterator;
  size_t bytes;
  if (argc != 2) return 2;
  leveldb_options_set_filter_policy(options, filter);
  leveldb_options_set_cache(options, cache);
  db = leveldb_open(options, argv[1], &error);
  printf("%d %s\n", db == NULL, strstr(error, "create_if_missing") != NULL ? "missing" : error);
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_free(error);
  error = NULL;
  db = leveldb_open(options, argv[1], &error);
  check(error);
  leveldb_put(db, write, "apple", 5, "red", 3, &error);
  check(error);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  print_value(db, read);
  filter_answer = 0; /* The policy denies it. */
  print_value(db, read);
  filter_answer = 1;
  iterator = leveldb_create_iterator(db, read);
  leveldb_iter_seek_to_last(iterator);
  printf("%.5s, %d\n", leveldb_iter_key(iterator, &bytes), leveldb_iter_valid(iterator));
  leveldb_iter_destroy(iterator);
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_filterpolicy_destroy(filter);
  leveldb_cache_destroy(cache);
  leveldb_readoptions_destroy(read);
  leveldb_writeoptions_destroy(write);
  printf("%d.%d\n", leveldb_major_version(), leveldb_minor_version());
  return 0;
}
