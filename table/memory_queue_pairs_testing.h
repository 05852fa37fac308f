// A memory node's memory and queue pairs to it, all within one test: no fabric is needed.
//
// Posted transfers take place as late as the contract allows: in the Wait() that covers them, or
// when the queue pair is destroyed. So a buffer that is freed, reused or read too early is found by
// the sanitizers or by wrong bytes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "port/mutex.h"
#include "table/table_reader.h"
#include "util/fabric/fabric.h"

namespace dlsm {

inline constexpr NodeId kTestNode{7};

// Each allocation is a region of its own, exactly as large as asked for. Thread-safe.
class TestMemory {
 public:
  RemoteSpan Allocate(uint64_t bytes) {
    port::MutexLock lock(mutex_);
    const RegionId region{static_cast<uint32_t>(regions_.size())};
    regions_.emplace_back(new char[bytes], bytes);
    return RemoteSpan{kTestNode, region, 0, bytes};
  }
  // nullptr if the span is out of bounds.
  char* At(const RemoteSpan& span) {
    port::MutexLock lock(mutex_);
    const auto region = static_cast<size_t>(span.region);
    if (span.node != kTestNode || region >= regions_.size()) return nullptr;
    const uint64_t size = regions_[region].second;
    if (span.offset > size || span.bytes > size - span.offset) return nullptr;
    return regions_[region].first.get() + span.offset;
  }
  void Free(const RemoteSpan& span) {
    port::MutexLock lock(mutex_);
    regions_[static_cast<size_t>(span.region)] = {nullptr, 0};
  }

 private:
  port::Mutex mutex_;
  std::vector<std::pair<std::unique_ptr<char[]>, uint64_t>> regions_ GUARDED_BY(mutex_);
};

class MemoryQueuePair final : public QueuePair {
 public:
  // `fail_at`: this many posts succeed before one fails; shared by all queue pairs, < 0: none.
  MemoryQueuePair(TestMemory* memory, bool direct, std::atomic<int64_t>* fail_at)
      : memory_(memory), direct_(direct), fail_at_(fail_at) {}
  ~MemoryQueuePair() override {
    for (const Post& post : posts_) Transfer(post);
  }

  Status PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                  Ticket* ticket) override {
    cost_.AddReadBytes(purpose, from.bytes);
    return Enqueue(Post{false, from, to, purpose, {}}, ticket);
  }
  Status PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                   Ticket* ticket) override {
    cost_.AddWriteBytes(purpose, to.bytes);
    return Enqueue(Post{true, to, from, purpose, {}}, ticket);
  }
  Status PostCompareAndSwap(const RemoteSpan&, uint64_t, uint64_t, uint64_t*, Purpose,
                            Ticket*) override {
    return Status::NotSupported("not needed by tables");
  }
  Status PostFetchAdd(const RemoteSpan&, uint64_t, uint64_t*, Purpose, Ticket*) override {
    return Status::NotSupported("not needed by tables");
  }
  Status Ring() override { return error_; }
  Status Wait(Ticket ticket, Deadline) override {
    if (closed()) return error_;
    while (!posts_.empty() && posts_.front().ticket <= ticket) {
      const Post post = posts_.front();
      posts_.pop_front();
      if (post.ticket == ticket) cost_.AddRoundTrip(post.purpose);
      if (fail_at_->fetch_sub(1) == 0) error_ = Status::IOError("injected fault");
      if (closed()) return error_;
      Transfer(post);
    }
    return Status::OK();
  }
  char* Direct(const RemoteSpan& span) override { return direct_ ? memory_->At(span) : nullptr; }
  void CountDirectRead(uint64_t bytes, Purpose purpose) override {
    cost_.AddReadBytes(purpose, bytes);
    cost_.AddWorkRequest(purpose);
    cost_.AddRoundTrip(purpose);
  }
  void CountDirectWrite(uint64_t bytes, Purpose purpose) override {
    cost_.AddWriteBytes(purpose, bytes);
    cost_.AddWorkRequest(purpose);
    cost_.AddRoundTrip(purpose);
  }
  size_t worth_ringing() const override { return kReadsWorthRinging; }
  bool closed() const override { return !error_.ok(); }

  void Close() { error_ = Status::IOError("closed by the test"); }
  WireTotals Totals() const { return cost_.Totals(); }
  size_t outstanding() const { return posts_.size(); }

 private:
  struct Post {
    bool write;
    RemoteSpan remote;
    LocalSpan local;
    Purpose purpose;
    Ticket ticket;
  };

  Status Enqueue(Post post, Ticket* ticket) {
    if (closed()) return error_;
    assert(post.remote.bytes == post.local.bytes);
    if (memory_->At(post.remote) == nullptr) {
      return Status::InvalidArgument("a span outside its region");
    }
    cost_.AddWorkRequest(post.purpose);
    post.ticket = *ticket = Ticket{++last_ticket_};
    posts_.push_back(post);
    return Status::OK();
  }
  void Transfer(const Post& post) {
    char* const remote = memory_->At(post.remote);
    if (remote == nullptr) return;  // Freed meanwhile.
    if (post.write) {
      std::memcpy(remote, post.local.data, post.local.bytes);
    } else {
      std::memcpy(post.local.data, remote, post.local.bytes);
    }
  }

  TestMemory* const memory_;
  const bool direct_;
  std::atomic<int64_t>* const fail_at_;
  Status error_;
  uint64_t last_ticket_ = 0;
  std::deque<Post> posts_;
  WireCost cost_;
};

class MemoryQueuePairs final : public QueuePairs {
 public:
  explicit MemoryQueuePairs(TestMemory* memory, bool direct = false)
      : memory_(memory), direct_(direct) {}

  Status ForThisThread(NodeId node, QueuePair** queue_pair) override {
    if (node != kTestNode) return Status::IOError("no such memory node");
    if (lost_) return Status::IOError("the test has lost this memory node");
    port::MutexLock lock(mutex_);
    std::unique_ptr<MemoryQueuePair>& mine = queue_pairs_[std::this_thread::get_id()];
    if (mine != nullptr && mine->closed()) {
      Add(&past_, mine->Totals());
      mine.reset();
    }
    if (mine == nullptr) mine = std::make_unique<MemoryQueuePair>(memory_, direct_, &fail_at_);
    *queue_pair = mine.get();
    return Status::OK();
  }
  Status NewBuffer(NodeId, size_t bytes, RegisteredBuffer* buffer) override {
    *buffer = RegisteredBuffer(std::shared_ptr<char[]>(new char[bytes]), bytes, 0);
    return Status::OK();
  }

  const std::atomic<uint32_t>& LostNodes() const override { return lost_nodes_; }
  // What is in place may be others' memory from now on; or that of another node, if not `this_one`.
  void LoseANode(bool this_one) {
    lost_ = this_one;
    ++lost_nodes_;
  }

  // Of the calling thread.
  MemoryQueuePair* Mine() {
    QueuePair* mine = nullptr;
    const Status status = ForThisThread(kTestNode, &mine);
    assert(status.ok());
    (void)status;
    return static_cast<MemoryQueuePair*>(mine);
  }
  WireCounts Counts(Purpose purpose = Purpose::kRead) {
    port::MutexLock lock(mutex_);
    WireTotals totals = past_;
    for (const auto& [thread, queue_pair] : queue_pairs_) Add(&totals, queue_pair->Totals());
    return totals[static_cast<size_t>(purpose)];
  }
  // The n-th transfer from now on fails, counted from 0.
  void FailAfter(int64_t n) { fail_at_.store(n); }
  bool failed() const { return fail_at_.load() < 0; }
  void FailNone() { fail_at_.store(INT64_MAX); }

 private:
  static void Add(WireTotals* to, const WireTotals& from) {
    for (size_t i = 0; i < kPurposeCount; ++i) (*to)[i] += from[i];
  }

  TestMemory* const memory_;
  const bool direct_;
  std::atomic<int64_t> fail_at_{INT64_MAX};
  std::atomic<bool> lost_{false};
  std::atomic<uint32_t> lost_nodes_{0};
  port::Mutex mutex_;
  std::map<std::thread::id, std::unique_ptr<MemoryQueuePair>> queue_pairs_ GUARDED_BY(mutex_);
  WireTotals past_ GUARDED_BY(mutex_){};  // Of queue pairs that were replaced.
};

}  // namespace dlsm
