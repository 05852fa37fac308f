#include "db/handle/follower.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <utility>

#include "dLSM/cache.h"
#include "dLSM/pinnable_slice.h"
#include "db/handle/check_options.h"
#include "db/handle/placement_property.h"
#include "db/handle/properties.h"
#include "db/memtable/snapshot.h"
#include "db/nodes/link_properties.h"
#include "db/read/get_pipeline_impl.h"
#include "db/read/multi_get_forms.h"
#include "port/allocation_point.h"
#include "util/call_timer.h"
#include "util/log.h"
#include "util/null_argument.h"
#include "util/other_process.h"
#include "util/out_of_memory.h"
#include "util/starting_threads.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

class FollowerSnapshot final : public Snapshot {
 public:
  FollowerSnapshot(const DB* owner, FollowedPublicationRef of)
      : Snapshot(owner), publication(std::move(of)) {}
  const FollowedPublicationRef publication;
};

Status ReadOnly() {
  return Status::NotSupported("this handle follows the database and cannot change it",
                              "write through the handle of its owner, see DB::Open");
}

// Where connections are made again nobody waits for the first state, but Close() may.
Options WithShortOpening(Options options) {
  constexpr uint64_t kOpenMsMax = 1000;
  options.open_timeout_ms = std::min(options.open_timeout_ms, kOpenMsMax);
  return options;
}

}  // namespace

Status DB::OpenFollower(const Options& options, const std::string& name, std::unique_ptr<DB>* db) {
  if (db == nullptr) return NullArgument("db");
  return WithinMemory([&] { return Follower::Open(options, name, db); });
}

Status DB::OpenFollower(const Options& options, const std::string& name, DB** db) {
  if (db == nullptr) return NullArgument("db");
  *db = nullptr;
  std::unique_ptr<DB> opened;
  DLSM_RETURN_IF_ERROR(DB::OpenFollower(options, name, &opened));
  *db = opened.release();
  return Status::OK();
}

Follower::Follower(const Options& options, const std::string& name)
    : options_(options),
      reopen_options_(WithShortOpening(options)),
      name_(name),
      comparator_(options.comparator),
      range_(options),
      statistics_(options.statistics != nullptr ? options.statistics : CreateStatistics()),
      objects_(TableObjects::For(options)),
      idle_(MergeSchedulerOptions()) {}

Status Follower::Open(const Options& requested, const std::string& name, std::unique_ptr<DB>* db) {
  db->reset();
  const Options options = WithFiniteTimeouts(requested);
  DLSM_RETURN_IF_ERROR(CheckName(name));
  DLSM_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<Follower> opened(new Follower(options, NameAtMemoryNodes(options, name)));
  FollowedPublicationRef first;
  DLSM_RETURN_IF_ERROR(FollowedDatabase::Open(
      opened->Context(opened->options_),
      Deadline::In(std::chrono::milliseconds(options.open_timeout_ms)), &first));
  opened->publications_ = std::make_unique<Publications>(std::move(first));
  {
    port::MutexLock state(opened->state_mutex_);
    opened->looked_at_ = Clock::now();
  }
  if (options.follow_interval_ms > 0) {
    DLSM_RETURN_IF_ERROR(StartingThreads([follower = opened.get()] {
      const int node = follower->options_.numa_node;
      follower->pool_ =
          ThreadPool::OfThisProcess(node == Options::kNumaNodeOfDevice ? kNoNumaNode : node);
      follower->catching_up_ = std::make_unique<ThreadPool::Task>(
          follower->pool_.get(), 1, [follower] { return follower->Run(); });
      follower->catching_up_->Wake();
      return Status::OK();
    }));
  }
  *db = std::move(opened);
  return Status::OK();
}

FollowerContext Follower::Context(const Options& options) {
  return {&options, name_, comparator_, &objects_, statistics_.get(), &idle_};
}

Status Follower::CheckOpen() const {
  if (opened_by_.IsHere() && !closed_.load(std::memory_order_acquire)) [[likely]]
    return Status::OK();
  if (!opened_by_.IsHere()) return OpenedByOtherProcess(opened_by_);
  return Status::InvalidArgument("the follower is closed", "open it again");
}

Status Follower::Close() try {
  if (!opened_by_.IsHere()) return OpenedByOtherProcess(opened_by_);
  if (closed_.exchange(true, std::memory_order_acq_rel)) return Status::OK();
  if (catching_up_ != nullptr) catching_up_->Stop();
  port::MutexLock lock(mutex_);
  if (publications_ == nullptr) return Status::OK();
  const std::shared_ptr<FollowedDatabase> database = publications_->Current()->database;
  publications_.reset();
  database->Close();
  return Status::OK();
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

Follower::~Follower() {
  const Status closed = Close();
  if (!closed.ok())
    Log().Error("closing a follower of \"{}\": {}", name_, closed.message().ToStringView());
}

// -------- Catching up

Follower::Clock::time_point Follower::Run() {
  const auto interval = std::chrono::milliseconds(options_.follow_interval_ms);
  if (!std::exchange(began_, true)) return Clock::now() + interval;
  const Status status = TryCatchUp();
  if (!status.ok() && !failing_) {
    Log().Error("following \"{}\" failed, to be tried again: {}", name_, status.ToString());
  }
  failing_ = !status.ok();
  return Clock::now() + interval;
}

Status Follower::TryCatchUp() try {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  port::MutexLock lock(mutex_);
  Status status = CatchUpLocked();
  publications_->Reclaim();
  port::MutexLock state(state_mutex_);
  if (status.ok()) looked_at_ = Clock::now();
  last_error_ = status;
  return status;
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

// Where the connections or the readers there are of no use any more, all are made again. What was
// read through the old ones keeps them, and fails once its lease has ended.
Status Follower::CatchUpLocked() {
  const FollowedPublicationRef current = publications_->Current();
  FollowedPublicationRef newest;
  bool reopen = !current->database->Check().ok();
  if (!reopen) {
    // Manifests and the indexes of new tables are large.
    const Status status = WithinMemory([&] {
      port::AllocationPoint("follower");
      return current->database->CatchUp(*current, &newest, &reopen);
    });
    reopen |= !current->database->Check().ok();
    reopen |= FailsAgain(status);
    if (!reopen && (!status.ok() || newest == nullptr)) return status;
  }
  if (reopen) {
    DLSM_RETURN_IF_ERROR(
        FollowedDatabase::Open(Context(reopen_options_), Deadline::In({}), &newest));
    failures_ = 0;
    port::MutexLock state(state_mutex_);
    ++reopened_;
  }
  publications_->Install(std::move(newest));
  statistics_->Add(Ticker::kCatchUps);
  return Status::OK();
}

// Whether connections that are of no use are the likely cause, though the leases are renewed: a
// memory node takes the access to its memory from who was cut off for longer than its grace period,
// and never gives that back to connections of before. Busy and NotFound say that there is nothing
// to be read yet.
bool Follower::FailsAgain(const Status& status) {
  const bool failed = !status.ok() && !status.IsBusy() && !status.IsNotFound();
  failures_ = failed ? failures_ + 1 : 0;
  return failures_ > 1;
}

// -------- Reads

Status Follower::CheckRead(const ReadOptions& options) const {
  DLSM_RETURN_IF_ERROR(CheckOpen());
  return CheckSnapshot(options, this);
}

FollowedPublicationRef Follower::PublicationFor(const ReadOptions& options) {
  if (options.snapshot == nullptr) return publications_->Current();
  return static_cast<const FollowerSnapshot*>(options.snapshot)->publication;
}

template <typename Take>
Status Follower::GetAndTake(const ReadOptions& options, const Slice& key, bool pins,
                            const Take& take) {
  DLSM_RETURN_IF_ERROR(CheckRead(options));
  DLSM_RETURN_IF_ERROR(range_.Check(key));
  const auto get_in = [&](const FollowedPublication& publication) {
    const size_t shard = publication.map.ShardOf(*options_.comparator, key);
    LookupResult result;
    result.pins = pins;
    const Reads::Source source = publication.SourceOf(shard);
    Status status = source.reader->Get(*source.view, key, publication.sequence,
                                       TableReadOptionsFor(options_, options), &result);
    if (status.ok() || status.IsNotFound()) {
      DLSM_RETURN_IF_ERROR(publication.database->Check());
    }
    if (status.ok()) take(&result);
    return status;
  };
  if (options.snapshot != nullptr) return get_in(*PublicationFor(options));
  const Publications::Pin publication(*publications_);
  return get_in(*publication);
}

Status Follower::Get(const ReadOptions& options, const Slice& key, std::string* value) try {
  const CallTimer timer(statistics_.get(), HistogramType::kGet);
  if (value == nullptr) return NullArgument("value");
  return GetAndTake(options, key, /*pins=*/false, [value](const LookupResult* result) {
    value->assign(result->value.data(), result->value.size());
  });
} catch (const std::bad_alloc&) {
  return OutOfTransferMemory();
}

// A value without a holder is copied, because it lies in the thread's scratch, or in memory that is
// this handle's only as long as its lease. `key` may point into *value, so *value is reset only
// after the lookup.
Status Follower::Get(const ReadOptions& options, const Slice& key, PinnableSlice* value) try {
  const CallTimer timer(statistics_.get(), HistogramType::kGet);
  if (value == nullptr) return NullArgument("value");
  const Status got = GetAndTake(options, key, /*pins=*/true, [value](LookupResult* result) {
    Pin(result, /*keeper=*/nullptr, value);
  });
  if (!got.ok()) value->Reset();
  return got;
} catch (const std::bad_alloc&) {
  value->Reset();
  return OutOfTransferMemory();
}

std::vector<Status> Follower::MultiGet(const ReadOptions& options, const std::vector<Slice>& keys,
                                       std::vector<std::string>* values) try {
  const CallTimer timer(statistics_.get(), HistogramType::kMultiGet);
  return MultiGetStrings(keys, values,
                         [&](const auto&... of_all) { MultiGetInto(options, of_all...); });
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

void Follower::MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                        PinnableSlice* values, Status* statuses) try {
  const CallTimer timer(statistics_.get(), HistogramType::kMultiGet);
  MultiGetPinned(count, keys, values, statuses,
                 [&](const auto&... of_all) { MultiGetInto(options, of_all...); });
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

void Follower::MultiGetInto(const ReadOptions& options, std::span<const Slice> keys,
                            const Reads::Values& values, Status* statuses) {
  const Status open = CheckRead(options);
  if (!open.ok()) {
    std::fill_n(statuses, keys.size(), open);
    return;
  }
  const FollowedPublicationRef publication = PublicationFor(options);
  std::vector<Reads::Source> sources;
  sources.reserve(keys.size());
  for (const Slice& key : keys) {
    sources.push_back(publication->SourceOf(publication->map.ShardOf(*options_.comparator, key)));
  }
  ReadsOf(*publication).MultiGet(keys, sources, publication->sequence, options, values, statuses);
  range_.ExplainMissing(keys, statuses);
  const Status lease = publication->database->Check();
  if (lease.ok()) return;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!statuses[i].ok() && !statuses[i].IsNotFound()) continue;
    statuses[i] = lease;
    values.Clear(i);
  }
}

class Follower::Places final : public LookupPlaces {
 public:
  Places(Follower* follower, const ReadOptions& options) : follower_(follower), options_(options) {}

  Status CheckOpen() override { return follower_->CheckOpen(); }
  Status Of(const Slice& key, LookupPlace* place) override {
    DLSM_RETURN_IF_ERROR(follower_->CheckRead(options_));
    DLSM_RETURN_IF_ERROR(follower_->range_.Check(key));
    FollowedPublicationRef publication = follower_->PublicationFor(options_);
    const size_t shard = publication->map.ShardOf(*follower_->options_.comparator, key);
    const Reads::Source source = publication->SourceOf(shard);
    const SequenceNumber sequence = publication->sequence;
    const std::shared_ptr<FollowedDatabase> database = publication->database;
    *place = {source.reader, source.view, std::move(publication),
              database,      sequence,    database.get()};
    return Status::OK();
  }
  Status Explain(const Slice& /*key*/, Status status) override { return status; }

 private:
  Follower* const follower_;
  const ReadOptions options_;
};

std::unique_ptr<GetPipeline> Follower::NewGetPipeline(const ReadOptions& options,
                                                      size_t depth) try {
  return std::make_unique<GetPipelineImpl>(
      std::make_unique<Places>(this, options), TableReadOptionsFor(options_, options),
      std::clamp<size_t>(depth, 1, kGetPipelineDepthMax), statistics_);
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

Iterator* Follower::NewIterator(const ReadOptions& options) try {
  const Status open = CheckRead(options);
  if (!open.ok()) return NewErrorIterator(open);
  const FollowedPublicationRef publication = PublicationFor(options);
  if (const Status lease = publication->database->Check(); !lease.ok()) {
    return NewErrorIterator(lease);
  }
  const Reads reads = ReadsOf(*publication);
  const std::vector<size_t> shards = reads.ShardsOf(options);
  return reads.NewIterator(shards.front(), publication->ViewsOf(shards), publication->sequence,
                           options, publication);
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

const Snapshot* Follower::GetSnapshot() try {
  if (!CheckOpen().ok()) return nullptr;
  // The caller's until ReleaseSnapshot().
  return std::make_unique<FollowerSnapshot>(this, publications_->Current()).release();
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

void Follower::ReleaseSnapshot(const Snapshot* snapshot) try {
  if (!opened_by_.IsHere() || !IsSnapshotOf(snapshot, this)) return;
  const std::unique_ptr<const FollowerSnapshot> released(
      static_cast<const FollowerSnapshot*>(snapshot));
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

void Follower::GetApproximateSizes(const Range* range, int n, uint64_t* sizes) try {
  if (n <= 0 || sizes == nullptr) return;
  std::fill_n(sizes, n, 0);
  if (range == nullptr || !CheckOpen().ok()) return;
  const FollowedPublicationRef publication = publications_->Current();
  const Reads reads = ReadsOf(*publication);
  for (int i = 0; i < n; ++i) {
    for (const size_t shard : reads.ShardsOf(&range[i].start, &range[i].limit)) {
      sizes[i] += reads.ApproximateBytes(*publication->views[shard]->version, range[i]);
    }
  }
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

// -------- Properties

std::string Follower::Describe() {
  const FollowedPublicationRef publication = publications_->Current();
  const FollowedDatabase& database = *publication->database;
  const auto millis = [](std::chrono::nanoseconds time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  };
  port::MutexLock state(state_mutex_);
  return fmt::format(
      "number {}\nsequence {}\nage-ms {}\nlease-left-ms {}\npublications-in-use {}\n"
      "oldest-in-use {}\nmemory-nodes {}\nreopened {}\nerror {}\n",
      publication->number, publication->sequence, millis(Clock::now() - looked_at_),
      std::max<int64_t>(0, millis(database.lease_left())), database.publications_in_use(),
      database.OldestInUse(), database.links().size(), reopened_, last_error_.ToString());
}

std::string Follower::Levels(const FollowedPublication& publication) const {
  std::string text = "shard level  tables       bytes\n";
  for (size_t shard = 0; shard < publication.views.size(); ++shard) {
    const std::vector<Level>& levels = publication.views[shard]->version->levels();
    for (size_t i = 0; i < levels.size(); ++i) {
      text += fmt::format("{:5} {:5} {:7} {:11}\n", shard, i, levels[i].table_count(),
                          levels[i].bytes());
    }
  }
  return text;
}

bool Follower::GetProperty(const Slice& property, std::string* value) try {
  if (value == nullptr) return false;
  value->clear();
  if (!CheckOpen().ok()) return false;
  const std::string name = OwnPropertyName(property);
  const FollowedPublicationRef publication = publications_->Current();
  const auto sum = [&publication](uint64_t (Version::*of)() const) {
    uint64_t total = 0;
    for (const auto& view : publication->views) total += (*view->version.*of)();
    return total;
  };
  if (name == "dlsm.follower") {
    *value = Describe();
  } else if (name == "dlsm.stats") {
    *value = Describe() + "\n" + Levels(*publication) + "\n" + statistics_->ToString();
  } else if (name == "dlsm.levels" || name == "dlsm.sstables") {
    *value = Levels(*publication);
  } else if (name == "dlsm.entries") {
    *value = std::to_string(sum(&Version::entries));
  } else if (name == "dlsm.table-bytes") {
    *value = std::to_string(sum(&Version::bytes));
  } else if (name == "dlsm.metadata-bytes") {
    *value = std::to_string(sum(&Version::metadata_bytes));
  } else if (name == "dlsm.comparator") {
    *value = options_.comparator->Name();
  } else if (name == "dlsm.filter-policy") {
    *value = objects_.FilterName();
  } else if (name == "dlsm.shard-boundaries") {
    *value = DescribeBoundaries(publication->map);
  } else if (name == "dlsm.memory") {
    *value =
        "memtables 0\nindexes-and-filters " + std::to_string(sum(&Version::metadata_bytes)) + "\n";
  } else if (name == "dlsm.approximate-memory-usage") {
    const Cache* const block_cache = objects_.block_cache.get();
    *value = std::to_string(sum(&Version::metadata_bytes) +
                            (block_cache == nullptr ? 0 : block_cache->TotalCharge()));
  } else {
    return GetLinkProperty(publication->database->links(), name, value);
  }
  return true;
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

// -------- Nothing of this

Status Follower::Put(const WriteOptions&, const Slice&, const Slice&) { return ReadOnly(); }
Status Follower::Delete(const WriteOptions&, const Slice&) { return ReadOnly(); }
Status Follower::IngestSorted(SortedSource*, uint64_t*) { return ReadOnly(); }
Status Follower::DeleteRange(const WriteOptions&, const Slice&, const Slice&) { return ReadOnly(); }
Status Follower::Write(const WriteOptions&, WriteBatch*) { return ReadOnly(); }
Status Follower::CompactRange(const Slice*, const Slice*) { return ReadOnly(); }
Status Follower::Flush(const FlushOptions&) { return ReadOnly(); }
Status Follower::FlushLog(bool) { return ReadOnly(); }
Status Follower::WaitDurable(uint64_t) { return ReadOnly(); }
Status Follower::SetOptions(const std::unordered_map<std::string, std::string>&) {
  return ReadOnly();
}

}  // namespace dlsm
