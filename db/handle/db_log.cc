// The log of a handle: replaying that of the owner before, and making one's own.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "db/handle/db_impl.h"
#include "db/log/log_layout.h"
#include "db/log/log_reader.h"
#include "db/log/replayed_entries.h"
#include "db/log/write_log.h"
#include "port/clock.h"
#include "port/mutex.h"
#include "util/call_timer.h"
#include "util/coding.h"
#include "util/fabric/peer_spans.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/rpc/messages/database_header.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr uint64_t kSegmentBytesMin = uint64_t{64} << 10;
constexpr uint64_t kSegmentBytesMax = uint64_t{8} << 20;
constexpr uint64_t kSegmentsAtLeast = 16;
constexpr uint64_t kSegmentsAtMost = kLogSegmentsMax / 2;

// What memtables make of Options::log_bytes_max.
uint64_t UsualLogBytes(const Options& options) {
  return std::min<uint64_t>(
      kLogFrameBytesMax,
      2 * options.write_buffer_size * static_cast<uint64_t>(options.max_write_buffer_number));
}

uint64_t LogBytesMaxOf(const Options& options) {
  return options.log_bytes_max > 0 ? options.log_bytes_max : UsualLogBytes(options);
}

// Segments are small beside what the log has, so that little of it is kept in vain. A log that may
// have more, for the sake of large writes, mostly has no more than the usual.
uint64_t SegmentBytesFor(const Options& options) {
  const uint64_t bytes_max = LogBytesMaxOf(options);
  const uint64_t usual = std::min(bytes_max, UsualLogBytes(options));
  const uint64_t bytes = std::clamp(std::max(usual / kSegmentsAtLeast, bytes_max / kSegmentsAtMost),
                                    kSegmentBytesMin, kSegmentBytesMax);
  return bytes / kRemoteAlignment * kRemoteAlignment;
}

// Tells how far the replay of a long log is.
class ReplayProgress {
 public:
  ReplayProgress(std::string database, uint64_t log_bytes)
      : database_(std::move(database)), log_bytes_(log_bytes) {}

  void Begin() { done_ = 0; }
  // Thread-safe.
  void Add(uint64_t bytes) {
    const uint64_t done = done_.fetch_add(bytes) + bytes;
    const port::MutexLock lock(mutex_);
    const auto now = port::Clock::now();
    if (now < told_at_ + kInterval) return;
    told_at_ = now;
    Log().Warn("database \"{}\": its log is replayed, {} MB of {} MB at most", database_,
               done >> 20, log_bytes_ >> 20);
  }

 private:
  static constexpr auto kInterval = std::chrono::seconds(2);

  const std::string database_;
  const uint64_t log_bytes_;
  std::atomic<uint64_t> done_{0};
  port::Mutex mutex_;
  port::Clock::time_point told_at_ GUARDED_BY(mutex_) = port::Clock::now();
};

// What one thread has found, which reads a part of the log.
struct ReplayedPart {
  SequenceNumber newest = 0;
  uint64_t untold_bytes = 0;
};

}  // namespace

// The taker's word is in its place, so nothing that the owner before does from now on is
// acknowledged. Once its access is gone, or it would find the word, the log does not change any
// more in what counts.
Status DbImpl::ReplayLog(SequenceNumber* last) {
  Shard& first = *shards_.front();
  if (!first.log_record().has_value()) return Status::OK();
  const LogRecord& record = *first.log_record();
  for (const RemoteSpan& span : record.Spans()) {
    DLSM_RETURN_IF_ERROR(CheckSpanOf(first.link().peer(), span));
  }
  DLSM_RETURN_IF_ERROR(first.session().AwaitRevocation(
      Deadline::In(std::chrono::milliseconds(options_.open_timeout_ms))));
  std::vector<std::unique_ptr<ReplayedEntries>> replayed;
  for (const auto& shard : shards_) {
    replayed.push_back(std::make_unique<ReplayedEntries>(comparator_, shard->flushed_below()));
  }
  const auto start = port::Clock::now();
  ReplayProgress progress(name_, record.segments.size() * record.segment_bytes);
  std::vector<ReplayedPart> parts;
  const auto begin = [&](size_t count) {
    parts.assign(count, {});
    progress.Begin();
    for (const auto& shard : replayed) shard->Begin(count);
  };
  const auto apply = [&](size_t number, const LogFrame& frame) {
    constexpr uint64_t kToldAtOnce = uint64_t{1} << 20;
    ReplayedPart& part = parts[number];
    part.newest = std::max(part.newest, frame.last());
    part.untold_bytes += frame.bytes;
    if (part.untold_bytes >= kToldAtOnce) progress.Add(std::exchange(part.untold_bytes, 0));
    return ForEachEntry(
        frame, [&](SequenceNumber sequence, ValueType type, const Slice& key, const Slice& value) {
          const size_t shard = only_ != nullptr ? 0 : map_.ShardOf(*options_.comparator, key);
          if (type != ValueType::kRangeTombstone) {
            replayed[shard]->Add(number, sequence, type, key, value);
            return Status::OK();
          }
          const size_t to = only_ != nullptr ? 0 : map_.ShardOf(*options_.comparator, value);
          for (size_t i = shard; i <= std::max(shard, to); ++i) {
            replayed[i]->AddRange(number, sequence, key, value);
          }
          return Status::OK();
        });
  };
  replayed_log_ =
      std::make_unique<LogReader>(record, first.link().peer().persistence, &first.queue_pairs(),
                                  std::chrono::milliseconds(options_.operation_timeout_ms));
  LogReader& reader = *replayed_log_;
  LogReader::Result result;
  const Status read = reader.Read(begin, apply, &result);
  if (read.IsCorruption() && options_.accept_log_loss) {
    Log().Error("database \"{}\" is opened without the rest of its log, as was asked for: {}",
                name_, read.ToString());
  } else if (read.IsCorruption()) {
    return Status::Corruption(read.message(), "Options::accept_log_loss opens it without that");
  } else {
    DLSM_RETURN_IF_ERROR(read);
  }
  if (!reader.memory_is_whole()) {
    Log().Warn(
        "database \"{}\": {} has been without power since its log was written; of that there is "
        "everything up to position {}, of which {} was known to be on disk",
        name_, first.link().name(), result.end, result.persisted);
  }
  // A handle that only reads leaves the log as it is: the next owner reads it once more.
  if (!read_only()) DLSM_RETURN_IF_ERROR(reader.Seal(result));
  // Manifests of what was brought back outlive a power failure. So must the log, until the last of
  // them is there: otherwise a part of a batch would be in a table and the rest nowhere.
  if (first.link().peer().has_files && !read_only()) {
    const Status persisted = PersistAtLogNode(
        record.Spans(), Deadline::In(std::chrono::milliseconds(options_.open_timeout_ms)));
    if (persisted.IsAborted()) return Status::IOError(persisted.message());
    DLSM_RETURN_IF_ERROR(first.Named(persisted));
  }
  Log().Info("database \"{}\": {} writes were brought back from {} bytes of log in {} ms", name_,
             result.frames, result.end - result.start, port::MicrosecondsSince(start) / 1000);
  for (size_t i = 0; i < result.parts; ++i) *last = std::max(*last, parts[i].newest);
  for (size_t i = 0; i < shards_.size(); ++i) {
    DLSM_RETURN_IF_ERROR(replayed[i]->End(result.parts));
    shards_[i]->TakeReplayed(std::move(replayed[i]), /*flushed_below=*/*last + 1);
  }
  return Status::OK();
}

// The memory node has what was stored there as long as its files have it.
Status DbImpl::PersistAtLogNode(const std::vector<RemoteSpan>& spans, Deadline deadline) const {
  Shard& first = *shards_.front();
  PersistRequest request;
  request.session = first.session().id();
  request.spans = spans;
  std::string reply;
  return first.link().rpc().Call(Method::kPersist, request.Encode(), &reply, deadline);
}

Status DbImpl::ChooseLogLevel(const std::string& home, const MemoryNodeLink& link) {
  const bool has_files = link.peer().has_files;
  log_level_ = options_.log;
  if (log_level_ == LogLevel::kDefault) {
    const LogLevel without_files = home.empty() ? LogLevel::kNone : LogLevel::kMemory;
    log_level_ = has_files ? LogLevel::kDisk : without_files;
  }
  if (log_level_ == LogLevel::kNone || has_files) return Status::OK();
  if (home.empty()) {
    return Status::InvalidArgument(
        "the log of a database in this process's own memory would end with the process",
        "set log to kNone, name a memory node, or give it files with Options::embedded_dir");
  }
  if (log_level_ == LogLevel::kMemory) return Status::OK();
  return Status::InvalidArgument(
      "Options::log is kDisk, and memory node " + link.name() + " has no files",
      "start Server with --data_dir, or set log to kMemory");
}

// In the record of the first shard's next manifest, which is put before anything is written.
Status DbImpl::CreateLog() {
  if (log_level_ == LogLevel::kNone) return Status::OK();
  Shard& first = *shards_.front();
  WriteLog::Config config;
  std::string id;
  DLSM_RETURN_IF_ERROR(RandomBytes(sizeof(LogId), &id));
  config.id = static_cast<LogId>(DecodeFixed64(id.data()));
  config.persistence = first.link().peer().persistence;
  config.level = log_level_;
  config.bytes_max = LogBytesMaxOf(options_);
  config.segment_bytes = SegmentBytesFor(options_);
  config.node = first.link().name();
  config.timeout = std::chrono::milliseconds(options_.operation_timeout_ms);
  config.patience = std::chrono::milliseconds(options_.write_stall_timeout_ms);
  DLSM_RETURN_IF_ERROR(first.AllocateFirstOfLog(kLogHeaderBytes, &config.header));
  WriteLog::Parts parts;
  parts.queue_pairs = &first.queue_pairs();
  parts.statistics = statistics_.get();
  parts.may_still_land = [&first] { return first.link().fabric().MayStillLand(); };
  // There is no writer before there is a keeper.
  parts.wake = [this] {
    if (log_keeper_ != nullptr) log_keeper_->Wake();
  };
  parts.word = OwnershipWordIn(first.session().header());
  parts.mine = first.session().ownership_word();
  parts.revocable = first.link().fabric().kind() != FabricKind::kShm;
  if (first.link().peer().has_files) {
    parts.persist = [this](const std::vector<RemoteSpan>& spans, Deadline deadline) {
      return PersistAtLogNode(spans, deadline);
    };
  }
  DLSM_RETURN_IF_ERROR(WriteLog::New(config, std::move(parts), &log_));
  durable_marks_.Add(epochs_->sequencer().Now().next - 1, /*position=*/0);
  RemoteSpan segment;
  DLSM_RETURN_IF_ERROR(
      first.AllocateFirstOfLog(kLogSegmentHeaderBytes + config.segment_bytes, &segment));
  DLSM_RETURN_IF_ERROR(log_->AddSegment(segment));
  for (const auto& shard : shards_) shard->SetLog(log_.get());
  first.RecordLogAtStart(log_->Record());
  return Status::OK();
}

void DbImpl::StartLogKeeper() {
  if (log_ == nullptr) return;
  Shard& first = *shards_.front();
  LogKeeper::Parts parts{};
  parts.pool = pool_.get();
  parts.log = log_.get();
  for (const auto& shard : shards_) parts.trees.push_back(&shard->tree());
  parts.fence = &fence_;
  parts.sync_interval = std::chrono::milliseconds(options_.log_sync_interval_ms);
  parts.allocate = [&first](uint64_t bytes, RemoteSpan* span) {
    return first.AllocateLog(bytes, span);
  };
  parts.record = [&first](const LogRecord& record) {
    return first.Named(first.tree().RecordLog(record));
  };
  parts.flush = [this](size_t shard) {
    shards_[shard]->background().RequestFlush().PermitUncheckedError();  // It is asked for again.
  };
  log_keeper_ = std::make_unique<LogKeeper>(std::move(parts));
}

// -------- What the application asks for

SequenceNumber DbImpl::Settle() const {
  Sequencer& sequencer = epochs_->sequencer();
  const SequenceNumber last = sequencer.Now().next - 1;
  sequencer.WaitSettled(last);
  return last;
}

Status DbImpl::FlushLog(bool sync) try {
  const CallTimer timer(statistics_.get(), HistogramType::kFlushLog);
  DLSM_RETURN_IF_ERROR(CheckOpen());
  DLSM_RETURN_IF_ERROR(CheckMayChange());
  if (sync) return WaitDurable(LatestSequence());
  return log_ != nullptr ? log_->AwaitDurable(log_->tail()) : Status::OK();
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

// A write that has settled took its place in the log before: the tail is behind it.
Status DbImpl::WaitDurable(uint64_t sequence) try {
  const CallTimer timer(statistics_.get(), HistogramType::kWaitDurable);
  DLSM_RETURN_IF_ERROR(CheckOpen());
  DLSM_RETURN_IF_ERROR(CheckMayChange());
  const SequenceNumber last = Settle();
  if (sequence > last) {
    return Status::InvalidArgument("no write has the number " + std::to_string(sequence) +
                                       "; the last one is " + std::to_string(last),
                                   "ask for one that LatestSequence() has told");
  }
  if (log_ == nullptr) {
    return DurableSequence() >= sequence ? Status::OK() : FlushShards(/*wait=*/true);
  }
  if (durable_marks_.Reach(log_->SyncedUpTo()) >= sequence) return Status::OK();
  const LogPosition tail = log_->tail();
  durable_marks_.Add(last, tail);
  return log_->AwaitSynced(tail);
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

uint64_t DbImpl::LatestSequence() {
  return CheckOpen().ok() ? epochs_->sequencer().Now().next - 1 : 0;
}

uint64_t DbImpl::DurableSequence() try {
  if (!CheckOpen().ok()) return 0;
  SequenceNumber durable = Settle();
  if (log_ != nullptr) {
    durable_marks_.Add(durable, log_->tail());
    return durable_marks_.Reach(log_->SyncedUpTo());
  }
  for (const auto& shard : shards_) durable = shard->tree().FlushedUpTo(durable);
  return durable;
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

}  // namespace dlsm
