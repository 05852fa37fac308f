#include "dLSM/c.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dLSM/cache.h"
#include "dLSM/comparator.h"
#include "dLSM/db.h"
#include "dLSM/filter_policy.h"
#include "dLSM/iterator.h"
#include "dLSM/options.h"
#include "dLSM/write_batch.h"

using dlsm::Slice;
using dlsm::Status;

// The names are the C interface's.
// NOLINTBEGIN(readability-identifier-naming)

struct dlsm_t {
  std::unique_ptr<dlsm::DB> db;
};
struct dlsm_cache_t {
  std::unique_ptr<dlsm::Cache> cache;
};
struct dlsm_iterator_t {
  std::unique_ptr<dlsm::Iterator> iterator;
};
struct dlsm_options_t {
  dlsm::Options options;
};
struct dlsm_readoptions_t {
  dlsm::ReadOptions options;
  std::string lower_bytes;
  std::string upper_bytes;
  Slice lower;
  Slice upper;
};
struct dlsm_snapshot_t {
  const dlsm::Snapshot* snapshot;
};
struct dlsm_writebatch_t {
  dlsm::WriteBatch batch;
};
struct dlsm_writeoptions_t {
  dlsm::WriteOptions options;
};

struct dlsm_comparator_t final : public dlsm::Comparator {
  ~dlsm_comparator_t() override { destructor(state); }
  int Compare(const Slice& a, const Slice& b) const override {
    return compare(state, a.data(), a.size(), b.data(), b.size());
  }
  const char* Name() const override { return name(state); }
  // C comparators cannot shorten keys.
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

  void* state;
  void (*destructor)(void*);
  int (*compare)(void*, const char*, size_t, const char*, size_t);
  const char* (*name)(void*);
};

struct dlsm_filterpolicy_t {
  std::unique_ptr<const dlsm::FilterPolicy> policy;
};

// NOLINTEND(readability-identifier-naming)

namespace {

class CFilterPolicy final : public dlsm::FilterPolicy {
 public:
  using Destructor = void (*)(void*);
  using CreateFunction = char* (*)(void*, const char* const*, const size_t*, int, size_t*);
  using MatchFunction = uint8_t (*)(void*, const char*, size_t, const char*, size_t);
  using NameFunction = const char* (*)(void*);

  CFilterPolicy(void* state, Destructor destructor, CreateFunction create, MatchFunction match,
                NameFunction name)
      : state_(state), destructor_(destructor), create_(create), match_(match), name_(name) {}
  CFilterPolicy(const CFilterPolicy&) = delete;
  CFilterPolicy& operator=(const CFilterPolicy&) = delete;
  ~CFilterPolicy() override { destructor_(state_); }

  const char* Name() const override { return name_(state_); }

  void CreateFilter(const Slice* keys, int n, std::string* filter) const override {
    std::vector<const char*> data;
    std::vector<size_t> sizes;
    for (const Slice* key = keys; key != keys + n; ++key) {
      data.push_back(key->data());
      sizes.push_back(key->size());
    }
    size_t bytes = 0;
    char* const made = create_(state_, data.data(), sizes.data(), n, &bytes);
    filter->append(made, bytes);
    std::free(made);
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return match_(state_, key.data(), key.size(), filter.data(), filter.size()) != 0;
  }

 private:
  void* const state_;
  const Destructor destructor_;
  const CreateFunction create_;
  const MatchFunction match_;
  const NameFunction name_;
};

// C has no zero-length objects to point at.
Slice ToSlice(const char* data, size_t bytes) { return bytes == 0 ? Slice() : Slice(data, bytes); }

// By malloc(), a 0 behind it; NULL when there is no memory.
char* Copy(const Slice& bytes) {
  char* const copy = static_cast<char*>(std::malloc(bytes.size() + 1));
  if (copy == nullptr) return nullptr;
  std::memcpy(copy, bytes.data(), bytes.size());
  copy[bytes.size()] = '\0';
  return copy;
}

// True if `status` is an error, which *errptr then tells.
bool SaveError(char** errptr, const Status& status) {
  if (status.ok()) return false;
  std::free(*errptr);
  *errptr = Copy(status.ToString());
  return true;
}

// What the enum does not know must stay something that it does not know: Open() refuses it.
template <typename Enum>
Enum ToEnum(int value) {
  constexpr int kUnknown = std::numeric_limits<unsigned char>::max();
  return static_cast<Enum>(value < 0 || value > kUnknown ? kUnknown : value);
}

// One answer of Get or MultiGet.
char* Answer(const Status& status, const std::string& value, size_t* bytes, char** errptr) {
  *bytes = 0;
  if (status.IsNotFound() || SaveError(errptr, status)) return nullptr;
  char* const copy = Copy(value);
  if (copy == nullptr) {
    SaveError(errptr, Status::IOError("there is no memory to copy the value to"));
    return nullptr;
  }
  *bytes = value.size();
  return copy;
}

template <typename T>
T* New() {
  return std::make_unique<T>().release();
}

// Takes back what New() gave.
template <typename T>
void Delete(T* object) {
  const std::unique_ptr<T> owned(object);
}

void SetBound(const char* key, size_t bytes, std::string* copy, Slice* slice,
              const Slice** option) {
  if (key == nullptr) {
    *option = nullptr;
    return;
  }
  copy->assign(key, bytes);
  *slice = Slice(*copy);
  *option = slice;
}

}  // namespace

extern "C" {

dlsm_t* dlsm_open(const dlsm_options_t* options, const char* name, char** errptr) {
  auto result = std::make_unique<dlsm_t>();
  if (SaveError(errptr, dlsm::DB::Open(options->options, name, &result->db))) return nullptr;
  return result.release();
}

dlsm_t* dlsm_open_follower(const dlsm_options_t* options, const char* name, char** errptr) {
  auto result = std::make_unique<dlsm_t>();
  if (SaveError(errptr, dlsm::DB::OpenFollower(options->options, name, &result->db))) {
    return nullptr;
  }
  return result.release();
}

void dlsm_try_catch_up(dlsm_t* db, char** errptr) { SaveError(errptr, db->db->TryCatchUp()); }

void dlsm_close(dlsm_t* db) { Delete(db); }

void dlsm_close_checked(dlsm_t* db, char** errptr) {
  const std::unique_ptr<dlsm_t> owned(db);
  SaveError(errptr, db->db->Close());
}

void dlsm_destroy_db(const dlsm_options_t* options, const char* name, char** errptr) {
  SaveError(errptr, dlsm::DestroyDB(name, options->options));
}

void dlsm_put(dlsm_t* db, const dlsm_writeoptions_t* options, const char* key, size_t keylen,
              const char* val, size_t vallen, char** errptr) {
  SaveError(errptr, db->db->Put(options->options, ToSlice(key, keylen), ToSlice(val, vallen)));
}

void dlsm_delete(dlsm_t* db, const dlsm_writeoptions_t* options, const char* key, size_t keylen,
                 char** errptr) {
  SaveError(errptr, db->db->Delete(options->options, ToSlice(key, keylen)));
}

void dlsm_write(dlsm_t* db, const dlsm_writeoptions_t* options, dlsm_writebatch_t* batch,
                char** errptr) {
  SaveError(errptr, db->db->Write(options->options, &batch->batch));
}

char* dlsm_get(dlsm_t* db, const dlsm_readoptions_t* options, const char* key, size_t keylen,
               size_t* vallen, char** errptr) {
  std::string value;
  const Status status = db->db->Get(options->options, ToSlice(key, keylen), &value);
  return Answer(status, value, vallen, errptr);
}

void dlsm_multi_get(dlsm_t* db, const dlsm_readoptions_t* options, size_t num_keys,
                    const char* const* keys_list, const size_t* keys_list_sizes, char** values_list,
                    size_t* values_list_sizes, char** errs) {
  std::vector<Slice> keys;
  keys.reserve(num_keys);
  for (size_t i = 0; i < num_keys; ++i) keys.push_back(ToSlice(keys_list[i], keys_list_sizes[i]));
  std::vector<std::string> values;
  const std::vector<Status> statuses = db->db->MultiGet(options->options, keys, &values);
  for (size_t i = 0; i < num_keys; ++i) {
    errs[i] = nullptr;
    values_list[i] = Answer(statuses[i], values[i], &values_list_sizes[i], &errs[i]);
  }
}

dlsm_iterator_t* dlsm_create_iterator(dlsm_t* db, const dlsm_readoptions_t* options) {
  auto* result = New<dlsm_iterator_t>();
  result->iterator.reset(db->db->NewIterator(options->options));
  return result;
}

const dlsm_snapshot_t* dlsm_create_snapshot(dlsm_t* db) {
  auto* result = New<dlsm_snapshot_t>();
  result->snapshot = db->db->GetSnapshot();
  return result;
}

void dlsm_release_snapshot(dlsm_t* db, const dlsm_snapshot_t* snapshot) {
  db->db->ReleaseSnapshot(snapshot->snapshot);
  Delete(snapshot);
}

void dlsm_set_options(dlsm_t* db, int count, const char* const names[], const char* const values[],
                      char** errptr) {
  std::unordered_map<std::string, std::string> options;
  for (int i = 0; i < count; ++i) options[names[i]] = values[i];
  SaveError(errptr, db->db->SetOptions(options));
}

char* dlsm_property_value(dlsm_t* db, const char* propname) {
  std::string value;
  return db->db->GetProperty(propname, &value) ? Copy(value) : nullptr;
}

void dlsm_approximate_sizes(dlsm_t* db, int num_ranges, const char* const* range_start_key,
                            const size_t* range_start_key_len, const char* const* range_limit_key,
                            const size_t* range_limit_key_len, uint64_t* sizes) {
  std::vector<dlsm::Range> ranges;
  ranges.reserve(static_cast<size_t>(std::max(num_ranges, 0)));
  for (int i = 0; i < num_ranges; ++i) {
    ranges.emplace_back(ToSlice(range_start_key[i], range_start_key_len[i]),
                        ToSlice(range_limit_key[i], range_limit_key_len[i]));
  }
  db->db->GetApproximateSizes(ranges.data(), num_ranges, sizes);
}

void dlsm_compact_range(dlsm_t* db, const char* start_key, size_t start_key_len,
                        const char* limit_key, size_t limit_key_len) {
  const Slice start = ToSlice(start_key, start_key_len);
  const Slice limit = ToSlice(limit_key, limit_key_len);
  db->db->CompactRange(start_key == nullptr ? nullptr : &start,
                       limit_key == nullptr ? nullptr : &limit);
}

void dlsm_flush(dlsm_t* db, char** errptr) { SaveError(errptr, db->db->Flush({})); }

void dlsm_wait_for_background_work(dlsm_t* db, char** errptr) {
  SaveError(errptr, db->db->WaitForBackgroundWork());
}

void dlsm_iter_destroy(dlsm_iterator_t* iterator) { Delete(iterator); }
uint8_t dlsm_iter_valid(const dlsm_iterator_t* iterator) { return iterator->iterator->Valid(); }
void dlsm_iter_seek_to_first(dlsm_iterator_t* iterator) { iterator->iterator->SeekToFirst(); }
void dlsm_iter_seek_to_last(dlsm_iterator_t* iterator) { iterator->iterator->SeekToLast(); }
void dlsm_iter_seek(dlsm_iterator_t* iterator, const char* key, size_t keylen) {
  iterator->iterator->Seek(ToSlice(key, keylen));
}
void dlsm_iter_seek_for_prev(dlsm_iterator_t* iterator, const char* key, size_t keylen) {
  iterator->iterator->SeekForPrev(ToSlice(key, keylen));
}
void dlsm_iter_next(dlsm_iterator_t* iterator) { iterator->iterator->Next(); }
void dlsm_iter_prev(dlsm_iterator_t* iterator) { iterator->iterator->Prev(); }
const char* dlsm_iter_key(const dlsm_iterator_t* iterator, size_t* keylen) {
  const Slice key = iterator->iterator->key();
  *keylen = key.size();
  return key.data();
}
const char* dlsm_iter_value(const dlsm_iterator_t* iterator, size_t* vallen) {
  const Slice value = iterator->iterator->value();
  *vallen = value.size();
  return value.data();
}
void dlsm_iter_get_error(const dlsm_iterator_t* iterator, char** errptr) {
  SaveError(errptr, iterator->iterator->status());
}

dlsm_writebatch_t* dlsm_writebatch_create(void) { return New<dlsm_writebatch_t>(); }
void dlsm_writebatch_destroy(dlsm_writebatch_t* batch) { Delete(batch); }
void dlsm_writebatch_clear(dlsm_writebatch_t* batch) { batch->batch.Clear(); }
void dlsm_writebatch_put(dlsm_writebatch_t* batch, const char* key, size_t keylen, const char* val,
                         size_t vallen) {
  batch->batch.Put(ToSlice(key, keylen), ToSlice(val, vallen));
}
void dlsm_writebatch_delete(dlsm_writebatch_t* batch, const char* key, size_t keylen) {
  batch->batch.Delete(ToSlice(key, keylen));
}
void dlsm_writebatch_append(dlsm_writebatch_t* destination, const dlsm_writebatch_t* source) {
  destination->batch.Append(source->batch);
}

void dlsm_writebatch_iterate(const dlsm_writebatch_t* batch, void* state,
                             void (*put)(void*, const char*, size_t, const char*, size_t),
                             void (*deleted)(void*, const char*, size_t)) {
  struct Caller final : public dlsm::WriteBatch::Handler {
    void Put(const Slice& key, const Slice& value) override {
      put(state, key.data(), key.size(), value.data(), value.size());
    }
    void Delete(const Slice& key) override { deleted(state, key.data(), key.size()); }

    void* state;
    void (*put)(void*, const char*, size_t, const char*, size_t);
    void (*deleted)(void*, const char*, size_t);
  };
  Caller caller;
  caller.state = state;
  caller.put = put;
  caller.deleted = deleted;
  // The signature has no place for the error; dlsm_write tells it.
  batch->batch.Iterate(&caller).PermitUncheckedError();
}

dlsm_options_t* dlsm_options_create(void) { return New<dlsm_options_t>(); }
void dlsm_options_destroy(dlsm_options_t* options) { Delete(options); }
void dlsm_options_set_comparator(dlsm_options_t* options, dlsm_comparator_t* comparator) {
  options->options.comparator = comparator;
}
void dlsm_options_set_filter_policy(dlsm_options_t* options, dlsm_filterpolicy_t* policy) {
  options->options.filter_policy = policy == nullptr ? nullptr : policy->policy.get();
}
void dlsm_options_set_create_if_missing(dlsm_options_t* options, uint8_t value) {
  options->options.create_if_missing = value != 0;
}
void dlsm_options_set_error_if_exists(dlsm_options_t* options, uint8_t value) {
  options->options.error_if_exists = value != 0;
}
void dlsm_options_set_take_over(dlsm_options_t* options, uint8_t value) {
  options->options.take_over = value != 0;
}
void dlsm_options_set_paranoid_checks(dlsm_options_t* options, uint8_t value) {
  options->options.paranoid_checks = value != 0;
}
void dlsm_options_set_write_buffer_size(dlsm_options_t* options, size_t bytes) {
  options->options.write_buffer_size = bytes;
}
void dlsm_options_set_max_open_files(dlsm_options_t* options, int value) {
  options->options.max_open_files = value;
}
void dlsm_options_set_cache(dlsm_options_t* options, dlsm_cache_t* cache) {
  options->options.block_cache = cache == nullptr ? nullptr : cache->cache.get();
}
void dlsm_options_set_block_size(dlsm_options_t* options, size_t bytes) {
  options->options.block_size = bytes;
}
void dlsm_options_set_block_restart_interval(dlsm_options_t* options, int value) {
  options->options.block_restart_interval = value;
}
void dlsm_options_set_max_file_size(dlsm_options_t* options, size_t bytes) {
  options->options.max_file_size = bytes;
}
void dlsm_options_set_compression(dlsm_options_t* options, int value) {
  options->options.compression = ToEnum<dlsm::CompressionType>(value);
}
void dlsm_options_set_memory_nodes(dlsm_options_t* options, const char* nodes) {
  options->options.memory_nodes = nodes;
}
void dlsm_options_set_config(dlsm_options_t* options, const char* path) {
  options->options.config = path;
}
void dlsm_options_set_publish_interval_ms(dlsm_options_t* options, uint64_t milliseconds) {
  options->options.publish_interval_ms = milliseconds;
}
void dlsm_options_set_follow_interval_ms(dlsm_options_t* options, uint64_t milliseconds) {
  options->options.follow_interval_ms = milliseconds;
}
void dlsm_options_set_shards(dlsm_options_t* options, int count) {
  options->options.shards = count;
}
void dlsm_options_set_shard_boundaries(dlsm_options_t* options, int count, const char* const* keys,
                                       const size_t* keys_len) {
  options->options.shard_boundaries.clear();
  for (int i = 0; i < count; ++i) {
    options->options.shard_boundaries.emplace_back(keys[i], keys_len[i]);
  }
}
void dlsm_options_set_compute_boundaries(dlsm_options_t* options, int count,
                                         const char* const* keys, const size_t* keys_len) {
  options->options.compute_boundaries.clear();
  for (int i = 0; i < count; ++i) {
    options->options.compute_boundaries.emplace_back(keys[i], keys_len[i]);
  }
}
void dlsm_options_set_placement(dlsm_options_t* options, int value) {
  options->options.placement = ToEnum<dlsm::TablePlacement>(value);
}
void dlsm_options_set_power_of_d(dlsm_options_t* options, int value) {
  options->options.power_of_d = value;
}
void dlsm_options_set_scatter_width(dlsm_options_t* options, int value) {
  options->options.scatter_width = value;
}
void dlsm_options_set_compute_node_id(dlsm_options_t* options, uint32_t id) {
  options->options.compute_node_id = id;
}
void dlsm_options_set_fabric(dlsm_options_t* options, const char* fabric) {
  options->options.fabric = fabric;
}
void dlsm_options_set_tcp_poll_us(dlsm_options_t* options, uint32_t microseconds) {
  options->options.tcp_poll_us = microseconds;
}
void dlsm_options_set_tcp_share_reads(dlsm_options_t* options, unsigned char share) {
  options->options.tcp_share_reads = share != 0;
}
void dlsm_options_set_rpc_transport(dlsm_options_t* options, const char* transport) {
  options->options.rpc_transport = transport;
}
void dlsm_options_set_rdma_device(dlsm_options_t* options, const char* device) {
  options->options.rdma_device = device;
}
void dlsm_options_set_access_name(dlsm_options_t* options, const char* name) {
  options->options.access_name = name;
}

void dlsm_options_set_tls(dlsm_options_t* options, unsigned char value) {
  options->options.tls = value != 0;
}

void dlsm_options_set_tls_ca_file(dlsm_options_t* options, const char* path) {
  options->options.tls_ca_file = path;
}

void dlsm_options_set_tls_certificate_file(dlsm_options_t* options, const char* path) {
  options->options.tls_certificate_file = path;
}

void dlsm_options_set_tls_key_file(dlsm_options_t* options, const char* path) {
  options->options.tls_key_file = path;
}

void dlsm_options_set_secret_file(dlsm_options_t* options, const char* path) {
  options->options.secret_file = path;
}
void dlsm_options_set_embedded_memory_bytes(dlsm_options_t* options, uint64_t bytes) {
  options->options.embedded_memory_bytes = bytes;
}
void dlsm_options_set_open_timeout_ms(dlsm_options_t* options, uint64_t milliseconds) {
  options->options.open_timeout_ms = milliseconds;
}
void dlsm_options_set_operation_timeout_ms(dlsm_options_t* options, uint64_t milliseconds) {
  options->options.operation_timeout_ms = milliseconds;
}
void dlsm_options_set_value_cache_size(dlsm_options_t* options, uint64_t bytes) {
  options->options.value_cache_size = bytes;
}
void dlsm_options_set_memory_budget(dlsm_options_t* options, uint64_t bytes) {
  options->options.memory_budget = bytes;
}
void dlsm_options_set_max_write_buffer_number(dlsm_options_t* options, int value) {
  options->options.max_write_buffer_number = value;
}
void dlsm_options_set_max_background_flushes(dlsm_options_t* options, int value) {
  options->options.max_background_flushes = value;
}
void dlsm_options_set_max_background_compactions(dlsm_options_t* options, int value) {
  options->options.max_background_compactions = value;
}
void dlsm_options_set_max_subcompactions(dlsm_options_t* options, int value) {
  options->options.max_subcompactions = value;
}
void dlsm_options_set_table_format(dlsm_options_t* options, int value) {
  options->options.table_format = ToEnum<dlsm::TableFormat>(value);
}
void dlsm_options_set_compaction_place(dlsm_options_t* options, int value) {
  options->options.compaction_place = ToEnum<dlsm::CompactionPlace>(value);
}

void dlsm_options_set_compaction_style(dlsm_options_t* options, int value) {
  options->options.compaction_style = ToEnum<dlsm::CompactionStyle>(value);
}
void dlsm_options_set_max_tables_per_guard(dlsm_options_t* options, int value) {
  options->options.max_tables_per_guard = value;
}
void dlsm_options_set_merge_scheduler(dlsm_options_t* options, int value) {
  options->options.merge_scheduler = ToEnum<dlsm::MergeSchedule>(value);
}
void dlsm_options_set_compaction_bandwidth(dlsm_options_t* options, uint64_t bytes_per_second) {
  options->options.compaction_bandwidth = bytes_per_second;
}
void dlsm_options_set_component_constraint(dlsm_options_t* options, int value) {
  options->options.component_constraint = ToEnum<dlsm::ComponentConstraint>(value);
}
void dlsm_options_set_max_components(dlsm_options_t* options, int value) {
  options->options.max_components = value;
}
void dlsm_options_set_slow_down_writes(dlsm_options_t* options, unsigned char value) {
  options->options.slow_down_writes = value != 0;
}

dlsm_comparator_t* dlsm_comparator_create(void* state, void (*destructor)(void*),
                                          int (*compare)(void*, const char*, size_t, const char*,
                                                         size_t),
                                          const char* (*name)(void*)) {
  auto* result = New<dlsm_comparator_t>();
  result->state = state;
  result->destructor = destructor;
  result->compare = compare;
  result->name = name;
  return result;
}
void dlsm_comparator_destroy(dlsm_comparator_t* comparator) { Delete(comparator); }

dlsm_filterpolicy_t* dlsm_filterpolicy_create(void* state, void (*destructor)(void*),
                                              char* (*create_filter)(void*, const char* const*,
                                                                     const size_t*, int, size_t*),
                                              uint8_t (*key_may_match)(void*, const char*, size_t,
                                                                       const char*, size_t),
                                              const char* (*name)(void*)) {
  auto* result = New<dlsm_filterpolicy_t>();
  result->policy =
      std::make_unique<CFilterPolicy>(state, destructor, create_filter, key_may_match, name);
  return result;
}
dlsm_filterpolicy_t* dlsm_filterpolicy_create_bloom(int bits_per_key) {
  auto* result = New<dlsm_filterpolicy_t>();
  result->policy.reset(dlsm::NewBloomFilterPolicy(bits_per_key));
  return result;
}
void dlsm_filterpolicy_destroy(dlsm_filterpolicy_t* policy) { Delete(policy); }

dlsm_readoptions_t* dlsm_readoptions_create(void) { return New<dlsm_readoptions_t>(); }
void dlsm_readoptions_destroy(dlsm_readoptions_t* options) { Delete(options); }
void dlsm_readoptions_set_verify_checksums(dlsm_readoptions_t* options, uint8_t value) {
  options->options.verify_checksums = value != 0;
}
void dlsm_readoptions_set_fill_cache(dlsm_readoptions_t* options, uint8_t value) {
  options->options.fill_cache = value != 0;
}
void dlsm_readoptions_set_snapshot(dlsm_readoptions_t* options, const dlsm_snapshot_t* snapshot) {
  options->options.snapshot = snapshot == nullptr ? nullptr : snapshot->snapshot;
}
void dlsm_readoptions_set_iterate_lower_bound(dlsm_readoptions_t* options, const char* key,
                                              size_t keylen) {
  SetBound(key, keylen, &options->lower_bytes, &options->lower,
           &options->options.iterate_lower_bound);
}
void dlsm_readoptions_set_iterate_upper_bound(dlsm_readoptions_t* options, const char* key,
                                              size_t keylen) {
  SetBound(key, keylen, &options->upper_bytes, &options->upper,
           &options->options.iterate_upper_bound);
}

dlsm_writeoptions_t* dlsm_writeoptions_create(void) { return New<dlsm_writeoptions_t>(); }
void dlsm_writeoptions_destroy(dlsm_writeoptions_t* options) { Delete(options); }
void dlsm_writeoptions_set_sync(dlsm_writeoptions_t* options, uint8_t value) {
  options->options.sync = value != 0;
}

dlsm_cache_t* dlsm_cache_create_lru(size_t capacity) {
  auto* result = New<dlsm_cache_t>();
  result->cache.reset(dlsm::NewLRUCache(capacity));
  return result;
}
void dlsm_cache_destroy(dlsm_cache_t* cache) { Delete(cache); }

void dlsm_free(void* pointer) { std::free(pointer); }

int dlsm_major_version(void) { return dlsm::kMajorVersion; }
int dlsm_minor_version(void) { return dlsm::kMinorVersion; }

}  // extern "C"
