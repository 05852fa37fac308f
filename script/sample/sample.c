/* The same as sample.cc in C. Build it with
   cc sample.c $(pkg-config --cflags --libs dlsm) */
#include <stdio.h>
#include <stdlib.h>

#include "dLSM/c.h"

static void stop_on_error(char* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", error);
  exit(1);
}

static void write_fruits(dlsm_t* db) {
  char* error = NULL;
  dlsm_writeoptions_t* options = dlsm_writeoptions_create();
  dlsm_writebatch_t* batch = dlsm_writebatch_create();
  dlsm_writebatch_put(batch, "apple", 5, "red", 3);
  dlsm_writebatch_put(batch, "banana", 6, "yellow", 6);
  dlsm_writebatch_put(batch, "cherry", 6, "dark", 4);
  dlsm_writebatch_delete(batch, "cherry", 6);
  dlsm_write(db, options, batch, &error);
  stop_on_error(error);
  dlsm_flush(db, &error); /* From here on the data is in remote memory. */
  stop_on_error(error);
  dlsm_writebatch_destroy(batch);
  dlsm_writeoptions_destroy(options);
}

static void read_fruits(dlsm_t* db) {
  char* error = NULL;
  size_t keylen;
  size_t vallen;
  dlsm_readoptions_t* options = dlsm_readoptions_create();
  char* value = dlsm_get(db, options, "banana", 6, &vallen, &error);
  stop_on_error(error);
  if (value == NULL) exit(1);
  printf("banana is %.*s\n", (int)vallen, value);
  dlsm_free(value);

  dlsm_iterator_t* iterator = dlsm_create_iterator(db, options);
  for (dlsm_iter_seek_to_first(iterator); dlsm_iter_valid(iterator); dlsm_iter_next(iterator)) {
    const char* key = dlsm_iter_key(iterator, &keylen);
    const char* bytes = dlsm_iter_value(iterator, &vallen);
    printf("%.*s = %.*s\n", (int)keylen, key, (int)vallen, bytes);
  }
  dlsm_iter_get_error(iterator, &error);
  stop_on_error(error);
  dlsm_iter_destroy(iterator);
  dlsm_readoptions_destroy(options);
}

int main(void) {
  char* error = NULL;
  dlsm_options_t* options = dlsm_options_create();
  dlsm_options_set_create_if_missing(options, 1);
  dlsm_t* db = dlsm_open(options, "sample", &error);
  stop_on_error(error);
  write_fruits(db);
  read_fruits(db);
  dlsm_close_checked(db, &error);
  stop_on_error(error);
  dlsm_options_destroy(options);
  return 0;
}
