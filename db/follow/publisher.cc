#include "db/follow/publisher.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "db/tree/manifest.h"
#include "port/allocation_point.h"
#include "port/clock.h"
#include "port/sync_point.h"
#include "table/remote_sink.h"
#include "util/checksum.h"
#include "util/deadline.h"
#include "util/log.h"
#include "util/out_of_memory.h"
#include "util/rpc/messages/messages.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// Of the nodes of a shard's memory.
constexpr size_t kHome = 0;

class HeldSnapshot {
 public:
  HeldSnapshot(SnapshotList* snapshots, Sequencer* sequencer)
      : snapshots_(snapshots), snapshot_(snapshots->Take(sequencer)) {}
  ~HeldSnapshot() { snapshots_->Release(snapshot_); }
  HeldSnapshot(const HeldSnapshot&) = delete;
  HeldSnapshot& operator=(const HeldSnapshot&) = delete;

  SequenceNumber sequence() const { return snapshot_->sequence(); }

 private:
  SnapshotList* const snapshots_;
  const SnapshotImpl* const snapshot_;
};

}  // namespace

Status TakeOverPublications(const RemoteSpan& header, uint64_t ownership_word,
                            NodeQueuePairs* queue_pairs, RpcClient* rpc, SessionId session,
                            std::chrono::nanoseconds timeout, uint64_t* first) {
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(queue_pairs->ForThisThread(header.node, &queue_pair));
  PublicationBoard board(queue_pair, header, Deadline::In(timeout));
  uint64_t number;
  RemoteSpan image;
  DLSM_RETURN_IF_ERROR(board.TakeOver(ownership_word, &number, &image));
  *first = number + 1;
  if (image.bytes == 0) return Status::OK();
  FreeRequest request;
  request.session = session;
  request.unnamed_from = *first;
  request.spans = {AllocatedSpan(image)};
  std::string reply;
  const Status freed = rpc->Call(Method::kFree, request.Encode(), &reply, Deadline::In(timeout));
  // The session does not hold it: it went with the one that wrote it.
  return freed.IsInvalidArgument() ? Status::OK() : freed;
}

Publisher::Publisher(const Config& config, Parts parts)
    : config_(config),
      parts_(std::move(parts)),
      newest_{PublicationSlot{config.first - 1, 0, {}, 0}, {}},
      task_(parts_.pool, 1, [this] { return Run(); }) {
  task_.Wake();
}

Publisher::Clock::time_point Publisher::Run() {
  const Status published = Publish(/*flush=*/true);
  if (!published.ok() && !failing_) {
    Log().Error("publishing failed, to be tried again: {}", published.ToString());
  }
  failing_ = !published.ok();
  return Clock::now() + config_.interval;
}

Publisher::Versions Publisher::CurrentVersions() const {
  Versions versions;
  for (Tree* tree : parts_.trees) versions.push_back(tree->views().Current()->version);
  return versions;
}

Status Publisher::Publish(bool flush) {
  port::MutexLock lock(mutex_);
  const auto start = Clock::now();
  Status status = PublishLocked(flush);
  port::MutexLock state(state_mutex_);
  if (status.ok()) complete_at_ = start;
  last_error_ = status;
  return status;
}

Status Publisher::PublishLocked(bool flush) {
  if (incomplete_.has_value()) DLSM_RETURN_IF_ERROR(CompleteLocked());
  Held next;
  Publication publication;
  std::optional<HeldSnapshot> snapshot(std::in_place, parts_.snapshots, parts_.sequencer);
  next.slot.sequence = snapshot->sequence();
  const bool unchanged = newest_.slot.sequence == next.slot.sequence;
  if (flush && !(unchanged && newest_.versions == CurrentVersions())) {
    DLSM_RETURN_IF_ERROR(parts_.flush());
  }
  next.versions = CurrentVersions();
  snapshot.reset();
  // Merges alone change versions too, and what they have merged is not to be kept for ever.
  if (unchanged && newest_.versions == next.versions) return Status::OK();

  publication.number = next.slot.number = newest_.slot.number + 1;
  publication.sequence = next.slot.sequence;
  publication.places = parts_.places;
  std::string image;  // Up to tens of megabytes.
  DLSM_RETURN_IF_ERROR(WithinMemory([&] {
    port::AllocationPoint("publication: to be written");
    for (size_t i = 0; i < parts_.trees.size(); ++i) {
      publication.manifests.push_back(
          ManifestCodec::Encode(parts_.trees[i]->Identity(next.slot.sequence, *next.versions[i]),
                                next.versions[i]->levels()));
    }
    image = publication.Encode();
    return Status::OK();
  }));
  RemoteSpan allocated;
  DLSM_RETURN_IF_ERROR(
      parts_.memory->Allocate(image.size(), PlacedMemory::WhenFull::kReserve, {kHome}, &allocated));
  next.slot.image = allocated.Sub(0, image.size());
  next.slot.image_checksum = Crc32c(image.data(), image.size());
  const Status written = WriteImage(image, next.slot.image);
  if (!written.ok()) {
    parts_.memory->FreeAllocated(allocated);  // Nothing names it.
    return written;
  }
  incomplete_ = std::move(next);
  port::SyncPoint("publication: written");
  return CompleteLocked();
}

// A sink that fails has waited for its writes, or their queue pair is closed: RemoteMemory knows
// when what is freed then can be given back.
Status Publisher::WriteImage(const std::string& image, const RemoteSpan& span) {
  std::unique_ptr<TableSink> sink;
  DLSM_RETURN_IF_ERROR(
      RemoteSink::Open(span, parts_.queue_pairs, Purpose::kPublication, config_.timeout, &sink));
  DLSM_RETURN_IF_ERROR(sink->Append(image));
  return sink->Finish();
}

Status Publisher::WriteSlot(const PublicationSlot& slot) {
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(parts_.queue_pairs->ForThisThread(config_.header.node, &queue_pair));
  return PublicationBoard(queue_pair, config_.header, Deadline::In(config_.timeout))
      .Write(slot, newest_.slot.number);
}

Status Publisher::CompleteLocked() {
  const Statistics::Mine counters = parts_.statistics->OfThisThread();
  DLSM_RETURN_IF_ERROR(WriteSlot(incomplete_->slot));
  port::SyncPoint("publication: named");
  // First the number, then the references: what is freed from here on no later publication names.
  parts_.unnamed_from->store(incomplete_->slot.number, std::memory_order_release);
  const Held before = std::exchange(newest_, std::move(*incomplete_));
  incomplete_.reset();
  if (before.slot.image.bytes > 0) parts_.memory->FreeAllocated(AllocatedSpan(before.slot.image));
  counters.Add(Ticker::kPublications);
  counters.Add(Ticker::kPublicationBytes, newest_.slot.image.bytes);
  port::MutexLock state(state_mutex_);
  number_ = newest_.slot.number;
  sequence_ = newest_.slot.sequence;
  image_bytes_ = newest_.slot.image.bytes;
  return Status::OK();
}

Status Publisher::PublishPatiently() {
  constexpr auto kPause = std::chrono::milliseconds(20);
  // A follower that keeps memory is told so at its next heartbeat, a quarter of its lease later at
  // most; another quarter later it is renewed for the last time (see
  // memory_node/accounts/reader_leases.h). Half a lease is left over for calls that take long.
  const auto until = Deadline::In(std::min(config_.patience, 2 * config_.lease));
  while (true) {
    Status status = Publish(/*flush=*/false);
    if (!status.IsBusy() || until.Passed()) return status;
    port::SleepUntil(Clock::now() + kPause);
  }
}

Status Publisher::Finish(bool flushed, RemoteSpan* image) {
  *image = RemoteSpan{};
  Status status;
  if (flushed) status = PublishPatiently();
  port::MutexLock lock(mutex_);
  if (flushed && status.ok()) {
    *image = newest_.slot.image;
  } else {
    // What the newest publication names is not kept any more.
    const uint64_t newest =
        incomplete_.has_value() ? incomplete_->slot.number : newest_.slot.number;
    parts_.unnamed_from->store(newest + 1, std::memory_order_release);
  }
  incomplete_.reset();
  newest_.versions.clear();
  return status;
}

std::string Publisher::Describe() const {
  port::MutexLock state(state_mutex_);
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(
      complete_at_ == Clock::time_point() ? std::chrono::nanoseconds(0)
                                          : Clock::now() - complete_at_);
  return fmt::format(
      "number {}\nsequence {}\nage-ms {}\nimage-bytes {}\ninterval-ms {}\nerror {}\n", number_,
      sequence_, age.count(), image_bytes_, config_.interval.count(), last_error_.ToString());
}

}  // namespace dlsm
