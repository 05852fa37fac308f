#include "db/index/indexed_db.h"

#include <fmt/core.h>

#include <algorithm>

#include "dLSM/comparator.h"
#include "dLSM/iterator.h"
#include "dLSM/write_batch.h"
#include "db/index/index_keys.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {

namespace {

constexpr size_t kNameBytesMax = 255;
constexpr size_t kPrefixBytesMax = 255;
constexpr size_t kLocksMax = 65536;

// Whether there is any key that does not begin with the prefix.
Status HasRecords(DB* db, const std::string& prefix, bool* has) {
  const std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  it->SeekToFirst();
  if (it->Valid() && it->key().starts_with(prefix)) {
    const std::string behind = KeyBehind(prefix);
    *has = false;
    if (behind.empty()) return Status::OK();
    it->Seek(behind);
  }
  *has = it->Valid();
  return it->status();
}

}  // namespace

std::vector<std::string> OpenIndex::KeysOf(const Slice& key, const Slice& value) const {
  std::vector<std::string> keys;
  definition.extract(key, value, &keys);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

bool OpenIndex::Has(const Slice& key, const Slice& value, const std::string& index_key) const {
  std::vector<std::string> keys;
  definition.extract(key, value, &keys);
  return std::find(keys.begin(), keys.end(), index_key) != keys.end();
}

Status IndexedDB::Open(DB* db, std::vector<IndexDefinition> indexes,
                       const IndexedDBOptions& options, std::unique_ptr<IndexedDB>* indexed) {
  if (db == nullptr || indexed == nullptr) {
    return Status::InvalidArgument("IndexedDB::Open: db or indexed is null");
  }
  if (options.locks < 1 || options.locks > kLocksMax) {
    return Status::InvalidArgument(fmt::format("IndexedDBOptions::locks is {}", options.locks),
                                   fmt::format("use 1 to {}", kLocksMax));
  }
  return WithinMemory([&] {
    auto made = std::make_unique<IndexedDBImpl>(db, options);
    DLSM_RETURN_IF_ERROR(made->Init(std::move(indexes)));
    *indexed = std::move(made);
    return Status::OK();
  });
}

Status IndexedDBImpl::Init(std::vector<IndexDefinition> definitions) {
  DLSM_RETURN_IF_ERROR(CheckOptions(definitions));
  for (IndexDefinition& definition : definitions) {
    auto index = std::make_unique<OpenIndex>(std::move(definition));
    index->entries = IndexEntriesPrefix(options_.prefix, index->definition.name);
    any_eager_ |= index->eager();
    indexes_.push_back(std::move(index));
  }
  DLSM_RETURN_IF_ERROR(CheckStates());
  return OpenStates();
}

Status IndexedDBImpl::CheckOptions(const std::vector<IndexDefinition>& definitions) {
  std::string comparator;
  if (!db_.GetProperty("dlsm.comparator", &comparator)) {
    return Status::InvalidArgument("the database is closed", "open it before its indexes");
  }
  if (comparator != BytewiseComparator()->Name()) {
    return Status::InvalidArgument(
        fmt::format("the database has the comparator {}, and indexes need {}", comparator,
                    BytewiseComparator()->Name()),
        "make a database with BytewiseComparator()");
  }
  if (options_.prefix.empty() || options_.prefix.size() > kPrefixBytesMax) {
    return Status::InvalidArgument(
        fmt::format("IndexedDBOptions::prefix has {} bytes", options_.prefix.size()),
        fmt::format("use 1 to {}", kPrefixBytesMax));
  }
  for (size_t i = 0; i < definitions.size(); ++i) {
    const std::string& name = definitions[i].name;
    if (name.empty() || name.size() > kNameBytesMax || !definitions[i].extract) {
      return Status::InvalidArgument(
          fmt::format("index {} has no function, or its name has {} bytes", i, name.size()),
          fmt::format("give it a function, and a name of 1 to {} bytes", kNameBytesMax));
    }
    for (size_t other = 0; other < i; ++other) {
      if (definitions[other].name != name) continue;
      return Status::InvalidArgument(fmt::format("two indexes are called {}", name),
                                     "give each a name of its own");
    }
  }
  return Status::OK();
}

// An index of the database that is not open would become wrong.
Status IndexedDBImpl::CheckStates() {
  const std::string begin = IndexStatesPrefix(options_.prefix);
  const std::string end = KeyBehind(begin);
  const Slice lower(begin);
  const Slice upper(end);
  ReadOptions read;
  read.iterate_lower_bound = &lower;
  read.iterate_upper_bound = &upper;
  const std::unique_ptr<Iterator> it(db_.NewIterator(read));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    Slice name = it->key();
    name.remove_prefix(begin.size());
    if (Find(name.ToString()) != nullptr) continue;
    return Status::InvalidArgument(
        fmt::format("the database has an index {}, which is not among those to open",
                    name.ToStringView()),
        "name it too, or delete it with IndexedDB::Drop");
  }
  return it->status();
}

Status IndexedDBImpl::OpenStates() {
  bool has_records = false;
  DLSM_RETURN_IF_ERROR(HasRecords(&db_, options_.prefix, &has_records));
  for (const auto& index : indexes_) DLSM_RETURN_IF_ERROR(OpenState(*index, has_records));
  return Status::OK();
}

Status IndexedDBImpl::OpenState(OpenIndex& index, bool has_records) {
  const std::string& name = index.definition.name;
  std::string bytes;
  const Status read = db_.Get(ReadOptions(), IndexStateKey(options_.prefix, name), &bytes);
  IndexState state;
  if (read.ok()) {
    DLSM_RETURN_IF_ERROR(state.Decode(bytes));
  } else if (read.IsNotFound()) {
    state.upkeep = index.definition.upkeep;
    state.ready = !has_records;
  } else {
    return read;
  }
  if (index.eager() && state.upkeep == IndexUpkeep::kLazy) {
    return Status::InvalidArgument(
        fmt::format("index {} is lazy, so it may have entries that are not right", name),
        "open it as lazy, or delete it with IndexedDB::Drop and build it as an eager one");
  }
  if (read.IsNotFound() || state.upkeep != index.definition.upkeep) {
    DLSM_RETURN_IF_ERROR(WriteState(index, state.ready));
  }
  index.ready.store(state.ready, std::memory_order_release);
  return Status::OK();
}

Status IndexedDBImpl::WriteState(const OpenIndex& index, bool ready) {
  IndexState state;
  state.upkeep = index.definition.upkeep;
  state.ready = ready;
  return db_.Put(WriteOptions(), IndexStateKey(options_.prefix, index.definition.name),
                 state.Encode());
}

OpenIndex* IndexedDBImpl::Find(const std::string& name) {
  for (const auto& index : indexes_) {
    if (index->definition.name == name) return index.get();
  }
  return nullptr;
}

Status IndexedDBImpl::FindReady(const std::string& name, OpenIndex** index) {
  *index = Find(name);
  if (*index == nullptr) {
    return Status::InvalidArgument(fmt::format("there is no index {}", name),
                                   "name it in IndexedDB::Open");
  }
  if (!(*index)->ready.load(std::memory_order_acquire)) {
    return Status::InvalidArgument(fmt::format("index {} lacks records from before it", name),
                                   "call IndexedDB::Build first");
  }
  return Status::OK();
}

IndexCounters IndexedDBImpl::counters() const {
  const auto of = [](const std::atomic<uint64_t>& count) {
    return count.load(std::memory_order_relaxed);
  };
  IndexCounters counters;
  counters.records_written = of(counts_.records_written);
  counters.records_read = of(counts_.records_read);
  counters.entries_written = of(counts_.entries_written);
  counters.entries_deleted = of(counts_.entries_deleted);
  counters.queries = of(counts_.queries);
  counters.candidates = of(counts_.candidates);
  counters.stale_candidates = of(counts_.stale_candidates);
  counters.entries_cleaned = of(counts_.entries_cleaned);
  counters.cleanups_failed = of(counts_.cleanups_failed);
  return counters;
}

}  // namespace dlsm
