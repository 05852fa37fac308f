// A memory node's way to its own memory: a queue pair whose Direct() always works and whose
// transfers are copies. So the code that reads tables remotely reads them here in place.
#pragma once

#include <cstdint>

#include "dLSM/status.h"
#include "table/table_reader.h"
#include "util/fabric/fabric.h"

namespace dlsm {

// Thread-safe; its queue pair has no state, so all threads share one.
class OwnMemory final : public QueuePairs {
 public:
  // `data` outlives this.
  OwnMemory(NodeId node, RegionId region, char* data, uint64_t bytes)
      : queue_pair_(node, region, data, bytes), node_(node) {}

  Status ForThisThread(NodeId node, QueuePair** queue_pair) override;
  Status NewBuffer(NodeId node, size_t bytes, RegisteredBuffer* buffer) override;

  NodeId node() const { return node_; }
  // nullptr if the span is not inside the region.
  char* At(const RemoteSpan& span) { return queue_pair_.Direct(span); }

 private:
  // Every post is done when it returns. Nothing is counted: no network is involved.
  class OwnQueuePair final : public QueuePair {
   public:
    OwnQueuePair(NodeId node, RegionId region, char* data, uint64_t bytes)
        : node_(node), region_(region), data_(data), bytes_(bytes) {}

    Status PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                    Ticket* ticket) override;
    Status PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                     Ticket* ticket) override;
    Status PostCompareAndSwap(const RemoteSpan& word, uint64_t expected, uint64_t desired,
                              uint64_t* prior, Purpose purpose, Ticket* ticket) override;
    Status PostFetchAdd(const RemoteSpan& word, uint64_t addend, uint64_t* prior, Purpose purpose,
                        Ticket* ticket) override;
    Status Ring() override { return Status::OK(); }
    Status Wait(Ticket /*ticket*/, Deadline /*deadline*/) override { return Status::OK(); }
    char* Direct(const RemoteSpan& span) override;
    void CountDirectRead(uint64_t /*bytes*/, Purpose /*purpose*/) override {}
    void CountDirectWrite(uint64_t /*bytes*/, Purpose /*purpose*/) override {}
    size_t worth_ringing() const override { return kReadsWorthRinging; }
    bool closed() const override { return false; }

   private:
    Status Locate(const RemoteSpan& span, char** bytes);
    Status LocateWord(const RemoteSpan& word, uint64_t** value);

    const NodeId node_;
    const RegionId region_;
    char* const data_;
    const uint64_t bytes_;
  };

  OwnQueuePair queue_pair_;
  const NodeId node_;
};

}  // namespace dlsm
