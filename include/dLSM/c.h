/*
The C interface. Names and meanings are those of LevelDB's C interface with the prefix dlsm_, but
for what concerns files (env, logger, repair), which does not exist here. See db.h for what the
calls do.

  - Types are opaque. What was made by a _create, _open or similar function is given back to the
    function of its name: _destroy, _close, _release. These take the NULL of one that failed, too,
    and do nothing then.
  - NULL for a handle, a name, or a key or value that has a length is an error of the call, or of
    the next one that can tell it, as below. A call that can tell nothing does nothing; a property
    is NULL, sizes are 0. NULL is allowed for errptr, and for what a call is to write its result's
    length to: the caller does not want to know. A char* of options is none if it is NULL.
  - Keys and values are a pointer and a length, any bytes; the pointer may be NULL if the length
    is 0.
  - char** errptr: if it is not NULL, *errptr is NULL, or a string from malloc() or from an earlier
    call. A call that fails frees it and sets it to a message, which is given to dlsm_free(): it is
    from malloc(), but for the one that says that there was no memory for a message. A call that
    succeeds leaves it alone.
  - What is returned "by malloc()" is given to dlsm_free().
  - If a small allocation fails within a database, the process ends: see db.h. Where the process has
    no memory for something large, or for what a call makes of its arguments, nothing but the call
    is lost: one with an errptr fails; what would be made is NULL (given to it, `state` is still the
    caller's, and its destructor is not called); a property is NULL, approximate sizes are 0. What a
    call that can tell nothing could not do, the next one that can tell fails with: dlsm_write()
    with a batch, dlsm_open() and others with options, dlsm_iter_get_error() with an iterator (which
    is not valid any more, and made again) or the readoptions of one (which are made again, too).
  - uint8_t is a truth value.
  - After fork() a child can use no database of its parent, nor iterators of it: see db.h.
  - Threads: many may use one database, cache, comparator or filter policy at once; of other things
    one thread at a time each, but options by many as long as none changes them.
*/
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dlsm_t dlsm_t;
typedef struct dlsm_cache_t dlsm_cache_t;
typedef struct dlsm_comparator_t dlsm_comparator_t;
typedef struct dlsm_filterpolicy_t dlsm_filterpolicy_t;
typedef struct dlsm_iterator_t dlsm_iterator_t;
typedef struct dlsm_options_t dlsm_options_t;
typedef struct dlsm_readoptions_t dlsm_readoptions_t;
typedef struct dlsm_slicetransform_t dlsm_slicetransform_t;
typedef struct dlsm_snapshot_t dlsm_snapshot_t;
typedef struct dlsm_writebatch_t dlsm_writebatch_t;
typedef struct dlsm_writeoptions_t dlsm_writeoptions_t;

/* -------- Databases */

/* NULL on error. */
dlsm_t* dlsm_open(const dlsm_options_t* options, const char* name, char** errptr);
/* A handle that only reads what the owner of the database publishes. NULL on error. */
dlsm_t* dlsm_open_follower(const dlsm_options_t* options, const char* name, char** errptr);
/* A handle that only reads a database which nobody else has open, and changes nothing of it. NULL
   on error. */
dlsm_t* dlsm_open_for_read_only(const dlsm_options_t* options, const char* name, char** errptr);
/* Of a follower: goes on to the newest publication. */
void dlsm_try_catch_up(dlsm_t* db, char** errptr);
/* What fails is only logged. */
void dlsm_close(dlsm_t* db);
/* The same, and tells what failed. `db` is gone in any case. */
void dlsm_close_checked(dlsm_t* db, char** errptr);
void dlsm_destroy_db(const dlsm_options_t* options, const char* name, char** errptr);

void dlsm_put(dlsm_t* db, const dlsm_writeoptions_t* options, const char* key, size_t keylen,
              const char* val, size_t vallen, char** errptr);
void dlsm_delete(dlsm_t* db, const dlsm_writeoptions_t* options, const char* key, size_t keylen,
                 char** errptr);
/* Of the keys in [begin, end). */
void dlsm_delete_range(dlsm_t* db, const dlsm_writeoptions_t* options, const char* begin,
                       size_t beginlen, const char* end, size_t endlen, char** errptr);
/* Loads a sorted stream, as DB::IngestSorted says. next(state, ...) moves to the next entry: it
   returns 0 at the end, else 1, and the entry, which stays until the next call. Returns the number
   of entries, 0 on error. */
uint64_t dlsm_ingest_sorted(dlsm_t* db, void* state,
                            uint8_t (*next)(void* state, const char** key, size_t* keylen,
                                            const char** val, size_t* vallen),
                            char** errptr);
void dlsm_write(dlsm_t* db, const dlsm_writeoptions_t* options, dlsm_writebatch_t* batch,
                char** errptr);

/* By malloc(); NULL if there is no such key, or on error. */
char* dlsm_get(dlsm_t* db, const dlsm_readoptions_t* options, const char* key, size_t keylen,
               size_t* vallen, char** errptr);
/* values_list[i], by malloc(), values_list_sizes[i] and errs[i] as from dlsm_get, for each
   i < num_keys. The caller provides the arrays; what they hold before is ignored. The last two may
   be NULL. */
void dlsm_multi_get(dlsm_t* db, const dlsm_readoptions_t* options, size_t num_keys,
                    const char* const* keys_list, const size_t* keys_list_sizes, char** values_list,
                    size_t* values_list_sizes, char** errs);

/* Where it is given NULL, one that is not valid; dlsm_iter_get_error() tells why. */
dlsm_iterator_t* dlsm_create_iterator(dlsm_t* db, const dlsm_readoptions_t* options);

const dlsm_snapshot_t* dlsm_create_snapshot(dlsm_t* db);
void dlsm_release_snapshot(dlsm_t* db, const dlsm_snapshot_t* snapshot);

/* Changes options while the database is open, as DB::SetOptions says. */
void dlsm_set_options(dlsm_t* db, int count, const char* const names[], const char* const values[],
                      char** errptr);

/* By malloc(), with a 0 behind it; NULL if there is no such property. */
char* dlsm_property_value(dlsm_t* db, const char* propname);
/* Of a property whose value is one number: 0, and *out_val is it. Else -1. (As in RocksDB.) */
int dlsm_property_int(dlsm_t* db, const char* propname, uint64_t* out_val);
void dlsm_approximate_sizes(dlsm_t* db, int num_ranges, const char* const* range_start_key,
                            const size_t* range_start_key_len, const char* const* range_limit_key,
                            const size_t* range_limit_key_len, uint64_t* sizes);
/* NULL for start_key or limit_key: from the first, to the last key. What fails is only logged. */
void dlsm_compact_range(dlsm_t* db, const char* start_key, size_t start_key_len,
                        const char* limit_key, size_t limit_key_len);
/* The same, and tells what failed. */
void dlsm_compact_range_checked(dlsm_t* db, const char* start_key, size_t start_key_len,
                                const char* limit_key, size_t limit_key_len, char** errptr);
void dlsm_flush(dlsm_t* db, char** errptr);
void dlsm_wait_for_background_work(dlsm_t* db, char** errptr);
/* See DB::FlushLog and what follows it in db.h. */
void dlsm_flush_log(dlsm_t* db, unsigned char sync, char** errptr);
void dlsm_wait_durable(dlsm_t* db, uint64_t sequence, char** errptr);
uint64_t dlsm_latest_sequence(dlsm_t* db);
uint64_t dlsm_durable_sequence(dlsm_t* db);

/* Copies the database, while others read and write it, into the file `path`. See WriteBackup() in
   backup.h. */
void dlsm_write_backup(dlsm_t* db, const char* path, char** errptr);
/* Reads all of such a file, and fails where it is damaged. */
void dlsm_check_backup(const char* path, char** errptr);
/* Writes the file into an empty database, or with `overwrite` into any, whose entries go. See
   RestoreBackup() in backup.h. */
void dlsm_restore_backup(dlsm_t* db, const char* path, uint8_t overwrite, char** errptr);

/* -------- Iterators */

void dlsm_iter_destroy(dlsm_iterator_t* iterator);
uint8_t dlsm_iter_valid(const dlsm_iterator_t* iterator);
void dlsm_iter_seek_to_first(dlsm_iterator_t* iterator);
void dlsm_iter_seek_to_last(dlsm_iterator_t* iterator);
void dlsm_iter_seek(dlsm_iterator_t* iterator, const char* key, size_t keylen);
void dlsm_iter_seek_for_prev(dlsm_iterator_t* iterator, const char* key, size_t keylen);
/* Of an iterator that is not valid: nothing. */
void dlsm_iter_next(dlsm_iterator_t* iterator);
void dlsm_iter_prev(dlsm_iterator_t* iterator);
/* The bytes stay until the iterator moves. NULL, with the length 0, if it is not valid. */
const char* dlsm_iter_key(const dlsm_iterator_t* iterator, size_t* keylen);
const char* dlsm_iter_value(const dlsm_iterator_t* iterator, size_t* vallen);
void dlsm_iter_get_error(const dlsm_iterator_t* iterator, char** errptr);

/* -------- Batches */

dlsm_writebatch_t* dlsm_writebatch_create(void);
void dlsm_writebatch_destroy(dlsm_writebatch_t* batch);
void dlsm_writebatch_clear(dlsm_writebatch_t* batch);
void dlsm_writebatch_put(dlsm_writebatch_t* batch, const char* key, size_t keylen, const char* val,
                         size_t vallen);
void dlsm_writebatch_delete(dlsm_writebatch_t* batch, const char* key, size_t keylen);
void dlsm_writebatch_delete_range(dlsm_writebatch_t* batch, const char* begin, size_t beginlen,
                                  const char* end, size_t endlen);
/* A function that is NULL is not called. It ends at a range that is deleted. */
void dlsm_writebatch_iterate(const dlsm_writebatch_t* batch, void* state,
                             void (*put)(void* state, const char* key, size_t keylen,
                                         const char* val, size_t vallen),
                             void (*deleted)(void* state, const char* key, size_t keylen));
/* As WriteBatch::SetSavePoint(), RollbackToSavePoint() and PopSavePoint(). */
void dlsm_writebatch_set_save_point(dlsm_writebatch_t* batch);
void dlsm_writebatch_rollback_to_save_point(dlsm_writebatch_t* batch, char** errptr);
void dlsm_writebatch_pop_save_point(dlsm_writebatch_t* batch, char** errptr);
void dlsm_writebatch_append(dlsm_writebatch_t* destination, const dlsm_writebatch_t* source);

/* -------- Options. Strings are copied. Comparators, filter policies and caches are counted: each
   may be destroyed once the last dlsm_open() that it is for has returned, before the database and
   the options. Options whose object was destroyed open nothing any more. */

dlsm_options_t* dlsm_options_create(void);
void dlsm_options_destroy(dlsm_options_t* options);
/* NULL: one that could not be made; dlsm_open() says so. */
void dlsm_options_set_comparator(dlsm_options_t* options, dlsm_comparator_t* comparator);
/* NULL: the default one. */
void dlsm_options_set_filter_policy(dlsm_options_t* options, dlsm_filterpolicy_t* policy);
/* NULL: none. The options share it: it may be destroyed at any time after this. */
void dlsm_options_set_prefix_extractor(dlsm_options_t* options,
                                       const dlsm_slicetransform_t* transform);
void dlsm_options_set_create_if_missing(dlsm_options_t* options, uint8_t value);
void dlsm_options_set_error_if_exists(dlsm_options_t* options, uint8_t value);
void dlsm_options_set_take_over(dlsm_options_t* options, uint8_t value);
void dlsm_options_set_paranoid_checks(dlsm_options_t* options, uint8_t value);
void dlsm_options_set_write_buffer_size(dlsm_options_t* options, size_t bytes);
void dlsm_options_set_max_open_files(dlsm_options_t* options, int value); /* Without effect. */
void dlsm_options_set_cache(dlsm_options_t* options, dlsm_cache_t* cache);
void dlsm_options_set_block_size(dlsm_options_t* options, size_t bytes);
void dlsm_options_set_block_restart_interval(dlsm_options_t* options, int value);
void dlsm_options_set_max_file_size(dlsm_options_t* options, size_t bytes);

enum { dlsm_no_compression = 0, dlsm_snappy_compression = 1 };
void dlsm_options_set_compression(dlsm_options_t* options, int value);

/* What LevelDB does not have; see options.h. */
void dlsm_options_set_memory_nodes(dlsm_options_t* options, const char* nodes);
void dlsm_options_set_config(dlsm_options_t* options, const char* path);
enum { dlsm_log_none = 0, dlsm_log_memory = 1, dlsm_log_disk = 2, dlsm_log_default = 3 };
void dlsm_options_set_log(dlsm_options_t* options, int level);
void dlsm_options_set_log_bytes_max(dlsm_options_t* options, uint64_t bytes);
void dlsm_options_set_log_sync_interval_ms(dlsm_options_t* options, uint64_t milliseconds);
void dlsm_options_set_accept_log_loss(dlsm_options_t* options, unsigned char accept);
void dlsm_options_set_publish_interval_ms(dlsm_options_t* options, uint64_t milliseconds);
void dlsm_options_set_follow_interval_ms(dlsm_options_t* options, uint64_t milliseconds);
void dlsm_options_set_shards(dlsm_options_t* options, int count);
/* The keys at which all shards but the first begin, ascending; copied. */
void dlsm_options_set_shard_boundaries(dlsm_options_t* options, int count, const char* const* keys,
                                       const size_t* keys_len);
void dlsm_options_set_compute_boundaries(dlsm_options_t* options, int count,
                                         const char* const* keys, const size_t* keys_len);
enum { dlsm_place_by_shard = 0, dlsm_place_round_robin, dlsm_place_power_of_d };
void dlsm_options_set_placement(dlsm_options_t* options, int value);
void dlsm_options_set_power_of_d(dlsm_options_t* options, int value);
void dlsm_options_set_scatter_width(dlsm_options_t* options, int value);
void dlsm_options_set_compute_node_id(dlsm_options_t* options, uint32_t id);
void dlsm_options_set_fabric(dlsm_options_t* options, const char* fabric);
void dlsm_options_set_tcp_poll_us(dlsm_options_t* options, uint32_t microseconds);
void dlsm_options_set_tcp_share_reads(dlsm_options_t* options, uint8_t value);
void dlsm_options_set_rpc_transport(dlsm_options_t* options, const char* transport);
void dlsm_options_set_rdma_device(dlsm_options_t* options, const char* device);
void dlsm_options_set_secret_file(dlsm_options_t* options, const char* path);
void dlsm_options_set_access_name(dlsm_options_t* options, const char* name);
void dlsm_options_set_tls(dlsm_options_t* options, uint8_t value);
void dlsm_options_set_tls_ca_file(dlsm_options_t* options, const char* path);
void dlsm_options_set_tls_certificate_file(dlsm_options_t* options, const char* path);
void dlsm_options_set_tls_key_file(dlsm_options_t* options, const char* path);
void dlsm_options_set_embedded_dir(dlsm_options_t* options, const char* path);
void dlsm_options_set_embedded_memory_bytes(dlsm_options_t* options, uint64_t bytes);
enum { dlsm_numa_node_of_device = -2, dlsm_no_numa_node = -1 }; /* Or a number from 0 on. */
void dlsm_options_set_numa_node(dlsm_options_t* options, int node);
void dlsm_options_set_open_timeout_ms(dlsm_options_t* options, uint64_t milliseconds);
void dlsm_options_set_operation_timeout_ms(dlsm_options_t* options, uint64_t milliseconds);
void dlsm_options_set_memory_budget(dlsm_options_t* options, uint64_t bytes);
void dlsm_options_set_value_cache_size(dlsm_options_t* options, uint64_t bytes);
void dlsm_options_set_max_write_buffer_number(dlsm_options_t* options, int value);
void dlsm_options_set_max_background_flushes(dlsm_options_t* options, int value);
void dlsm_options_set_max_background_compactions(dlsm_options_t* options, int value);
void dlsm_options_set_max_subcompactions(dlsm_options_t* options, int value);

enum { dlsm_byte_addressable = 0, dlsm_block_based = 1 };
void dlsm_options_set_table_format(dlsm_options_t* options, int value);

enum { dlsm_memory_node = 0, dlsm_compute_node = 1, dlsm_automatic = 2 };
void dlsm_options_set_compaction_place(dlsm_options_t* options, int value);

enum {
  dlsm_leveled = 0,
  dlsm_guards,
  dlsm_leveled_choose_best,
  dlsm_full_leveling,
  dlsm_tiered,
  dlsm_size_tiered
};
void dlsm_options_set_compaction_style(dlsm_options_t* options, int value);
void dlsm_options_set_max_tables_per_guard(dlsm_options_t* options, int value);
void dlsm_options_set_guard_bits(dlsm_options_t* options, int value);
void dlsm_options_set_max_size_amplification_percent(dlsm_options_t* options, int value);
void dlsm_options_set_idle_size_amplification_percent(dlsm_options_t* options, int value);
void dlsm_options_set_level0_file_num_compaction_trigger(dlsm_options_t* options, int value);
void dlsm_options_set_level0_stop_writes_trigger(dlsm_options_t* options, int value);
void dlsm_options_set_max_bytes_for_level_base(dlsm_options_t* options, uint64_t bytes);
void dlsm_options_set_max_bytes_for_level_multiplier(dlsm_options_t* options, double value);
void dlsm_options_set_num_levels(dlsm_options_t* options, int value);

enum { dlsm_single = 0, dlsm_fair, dlsm_greedy, dlsm_spring_and_gear };
void dlsm_options_set_merge_scheduler(dlsm_options_t* options, int value);
void dlsm_options_set_compaction_bandwidth(dlsm_options_t* options, uint64_t bytes_per_second);

enum { dlsm_local_constraint = 0, dlsm_global_constraint = 1 };
void dlsm_options_set_component_constraint(dlsm_options_t* options, int value);
void dlsm_options_set_max_components(dlsm_options_t* options, int value);
void dlsm_options_set_bulk_load(dlsm_options_t* options, uint8_t value);
void dlsm_options_set_slow_down_writes(dlsm_options_t* options, uint8_t value);
void dlsm_options_set_write_stall_timeout_ms(dlsm_options_t* options, uint64_t milliseconds);

/* -------- Comparators. The functions are called by many threads at once, with `state`; options.h
   says which. `destructor` is called once, by dlsm_comparator_destroy() or, if a database still has
   the comparator, by the last dlsm_close(). It may be NULL. If another function is NULL, so is the
   comparator. */

dlsm_comparator_t* dlsm_comparator_create(void* state, void (*destructor)(void* state),
                                          int (*compare)(void* state, const char* a, size_t alen,
                                                         const char* b, size_t blen),
                                          const char* (*name)(void* state));
void dlsm_comparator_destroy(dlsm_comparator_t* comparator);

/* -------- Filter policies */

/* As with a comparator: when the functions are called, and which may be NULL. create_filter returns
   the filter by malloc(); NULL, with a length, if there is no memory: then what the filter was for
   is tried again. */
dlsm_filterpolicy_t* dlsm_filterpolicy_create(
    void* state, void (*destructor)(void* state),
    char* (*create_filter)(void* state, const char* const* key_array,
                           const size_t* key_length_array, int num_keys, size_t* filter_length),
    uint8_t (*key_may_match)(void* state, const char* key, size_t length, const char* filter,
                             size_t filter_length),
    const char* (*name)(void* state));
dlsm_filterpolicy_t* dlsm_filterpolicy_create_bloom(int bits_per_key);
void dlsm_filterpolicy_destroy(dlsm_filterpolicy_t* policy);

/* -------- Prefixes of keys, as in slice_transform.h. */

dlsm_slicetransform_t* dlsm_slicetransform_create_fixed_prefix(size_t bytes);
dlsm_slicetransform_t* dlsm_slicetransform_create_capped_prefix(size_t bytes);
void dlsm_slicetransform_destroy(dlsm_slicetransform_t* transform);

/* -------- Options of calls */

dlsm_readoptions_t* dlsm_readoptions_create(void);
void dlsm_readoptions_destroy(dlsm_readoptions_t* options);
void dlsm_readoptions_set_verify_checksums(dlsm_readoptions_t* options, uint8_t value);
void dlsm_readoptions_set_fill_cache(dlsm_readoptions_t* options, uint8_t value);
/* NULL: none. */
void dlsm_readoptions_set_snapshot(dlsm_readoptions_t* options, const dlsm_snapshot_t* snapshot);
/* Bounds of iterators: [lower, upper). Copied, and again by each iterator: it keeps those that it
   was made with, and may outlive the options. NULL: none. */
void dlsm_readoptions_set_iterate_lower_bound(dlsm_readoptions_t* options, const char* key,
                                              size_t keylen);
void dlsm_readoptions_set_iterate_upper_bound(dlsm_readoptions_t* options, const char* key,
                                              size_t keylen);
void dlsm_readoptions_set_prefix_same_as_start(dlsm_readoptions_t* options, uint8_t value);
enum { dlsm_read_all_tier = 0, dlsm_block_cache_tier = 1 };
void dlsm_readoptions_set_read_tier(dlsm_readoptions_t* options, int value);
/* In microseconds of CLOCK_MONOTONIC; 0: none. */
void dlsm_readoptions_set_deadline(dlsm_readoptions_t* options, uint64_t microseconds);

dlsm_writeoptions_t* dlsm_writeoptions_create(void);
void dlsm_writeoptions_destroy(dlsm_writeoptions_t* options);
void dlsm_writeoptions_set_sync(dlsm_writeoptions_t* options, uint8_t value);
void dlsm_writeoptions_set_no_slowdown(dlsm_writeoptions_t* options, uint8_t value);
/* As that of reads. */
void dlsm_writeoptions_set_deadline(dlsm_writeoptions_t* options, uint64_t microseconds);

/* -------- Caches and the rest */

dlsm_cache_t* dlsm_cache_create_lru(size_t capacity);
void dlsm_cache_destroy(dlsm_cache_t* cache);

/* Calls free(), unless it is given the message that is not from malloc(): see errptr above. */
void dlsm_free(void* pointer);

int dlsm_major_version(void);
int dlsm_minor_version(void);
int dlsm_patch_version(void);
/* Such as "0.1.0": of the library that the process runs with. The text is never freed. */
const char* dlsm_version(void);

#ifdef __cplusplus
}
#endif
