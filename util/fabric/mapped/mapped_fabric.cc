#include "util/fabric/mapped/mapped_fabric.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "port/cpu.h"
#include "port/scheduler.h"
#include "port/thread.h"
#include "util/fabric/span_check.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

std::atomic_ref<uint64_t> Word(const MappedRegion& region, uint64_t offset) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(region.data + offset));
}

// What a queue pair has for its connection's CopyThread. Belongs to the queue pair's thread.
class CopiesAside {
 public:
  explicit CopiesAside(CopyThread& thread) : thread_(thread) {}
  ~CopiesAside() { WaitFor(submitted_); }
  CopiesAside(const CopiesAside&) = delete;
  CopiesAside& operator=(const CopiesAside&) = delete;

  void Post(char* to, const char* from, size_t bytes, Ticket ticket) {
    posted_.push_back({to, from, bytes, &done_, static_cast<uint64_t>(ticket)});
    bytes_ += bytes;
  }

  // Copies keep their order: what is small is copied here only if nothing is under way.
  void Ring() {
    if (posted_.empty()) return;
    const bool here = bytes_ <= kCopiedHereBytes && IsDone(submitted_);
    if (here || !thread_.Submit(posted_)) CopyThread::Make(posted_);
    submitted_ = posted_.back().number;
    posted_.clear();
    bytes_ = 0;
  }

  // Everything up to `ticket` has been rung for.
  void Wait(Ticket ticket) const { WaitFor(std::min(static_cast<uint64_t>(ticket), submitted_)); }
  void WaitForAll() {
    Ring();
    WaitFor(submitted_);
  }

 private:
  // Others' processors are not worth waking for less.
  static constexpr size_t kCopiedHereBytes = 4096;

  bool IsDone(uint64_t number) const { return done_.load(std::memory_order_acquire) >= number; }
  void WaitFor(uint64_t number) const {
    constexpr int kLooks = 1024;
    for (int looks = 1; !IsDone(number); ++looks) {
      if (looks % kLooks == 0) {
        port::Yield();
      } else {
        port::CpuRelax();
      }
    }
  }

  CopyThread& thread_;
  std::vector<CopyThread::Copy> posted_;
  size_t bytes_ = 0;        // Of posted_.
  uint64_t submitted_ = 0;  // The number of the last copy that was rung for.
  std::atomic<uint64_t> done_{0};
};

class MappedQueuePair : public QueuePair {
 public:
  // `copies` may be null.
  MappedQueuePair(NodeId node, const RegionTable& regions, WireCostRegistry& costs,
                  CopyThread* copies)
      : check_(node, regions), ledger_(costs) {
    if (copies != nullptr) aside_.emplace(*copies);
  }

  Status PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                  Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    const MappedRegion* region = nullptr;
    Status status = check_.Transfer(from, to, &region);
    if (!status.ok()) [[unlikely]]
      return Close(std::move(status));
    *ticket = ledger_.PostRead(from.bytes, purpose);
    Copy(to.data, region->data + from.offset, to.bytes, *ticket);
    return Status::OK();
  }

  Status PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                   Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    const MappedRegion* region = nullptr;
    Status status = check_.Transfer(to, from, &region);
    if (!status.ok()) [[unlikely]]
      return Close(std::move(status));
    *ticket = ledger_.PostWrite(to.bytes, purpose);
    Copy(region->data + to.offset, from.data, from.bytes, *ticket);
    return Status::OK();
  }

  Status PostCompareAndSwap(const RemoteSpan& word, uint64_t expected, uint64_t desired,
                            uint64_t* prior, Purpose purpose, Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    const MappedRegion* region = nullptr;
    Status status = check_.Atomic(word, &region);
    if (!status.ok()) [[unlikely]]
      return Close(std::move(status));
    if (aside_) aside_->WaitForAll();
    // Sequentially consistent, as the atomics of a device are: the order of all of them is one.
    Word(*region, word.offset).compare_exchange_strong(expected, desired);
    *prior = expected;
    *ticket = ledger_.PostAtomic(purpose);
    return Status::OK();
  }

  Status PostFetchAdd(const RemoteSpan& word, uint64_t addend, uint64_t* prior, Purpose purpose,
                      Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    const MappedRegion* region = nullptr;
    Status status = check_.Atomic(word, &region);
    if (!status.ok()) [[unlikely]]
      return Close(std::move(status));
    if (aside_) aside_->WaitForAll();
    *prior = Word(*region, word.offset).fetch_add(addend);
    *ticket = ledger_.PostAtomic(purpose);
    return Status::OK();
  }

  Status Ring() override {
    DLSM_RETURN_IF_ERROR(error_);
    ledger_.Ring();
    if (aside_) aside_->Ring();
    return Status::OK();
  }

  Status Wait(Ticket ticket, Deadline /*deadline*/) override {
    DLSM_RETURN_IF_ERROR(Ring());
    if (aside_) aside_->Wait(ticket);
    ledger_.Wait(ticket);
    return Status::OK();
  }

  char* Direct(const RemoteSpan& span) override {
    const MappedRegion* region = nullptr;
    if (closed() || !check_.Locate(span, &region).ok()) [[unlikely]]
      return nullptr;
    return region->data + span.offset;
  }
  void CountDirectRead(uint64_t bytes, Purpose purpose) override {
    ledger_.DirectRead(bytes, purpose);
  }
  void CountDirectWrite(uint64_t bytes, Purpose purpose) override {
    ledger_.DirectWrite(bytes, purpose);
  }

  size_t worth_ringing() const override { return kReadsWorthRinging; }
  bool closed() const override { return !error_.ok(); }

 private:
  void Copy(char* to, const char* from, size_t bytes, Ticket ticket) {
    if (aside_) [[unlikely]] {
      aside_->Post(to, from, bytes, ticket);
    } else if (bytes > 0) {
      std::memcpy(to, from, bytes);
    }
  }
  // Nothing is under way any more when an error is returned.
  Status Close(Status why) {
    if (aside_) aside_->WaitForAll();
    error_ = std::move(why);
    return error_;
  }

  const SpanCheck check_;
  QueuePairLedger ledger_;
  Status error_;  // Not OK: closed, and why.
  std::optional<CopiesAside> aside_;
};

}  // namespace

MappedConnection::MappedConnection(FabricKind kind, NodeId node, RegionTable regions,
                                   std::shared_ptr<const void> owner, int numa_node)
    : kind_(kind),
      node_(node),
      numa_node_(numa_node),
      owner_(std::move(owner)),
      regions_(std::move(regions)),
      buffers_(numa_node) {}

void MappedConnection::CopyAside(uint64_t wakes_for_bytes) {
  // Under a scheduler that runs one thread at a time there would be no aside.
  if (port::Scheduler::Current() != nullptr) return;
  try {
    copies_ = std::make_unique<CopyThread>(wakes_for_bytes);
  } catch (const std::system_error&) {
    // Who posts copies.
  }
}

Status MappedConnection::NewQueuePair(Deadline /*deadline*/,
                                      std::unique_ptr<QueuePair>* queue_pair) {
  *queue_pair = std::make_unique<MappedQueuePair>(node_, regions_, costs_, copies_.get());
  return Status::OK();
}

}  // namespace dlsm
