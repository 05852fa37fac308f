#include "util/fabric/mapped_fabric.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "util/fabric/span_check.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

std::atomic_ref<uint64_t> Word(const MappedRegion& region, uint64_t offset) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(region.data + offset));
}

class MappedQueuePair : public QueuePair {
 public:
  MappedQueuePair(NodeId node, const RegionTable& regions, WireCostRegistry& costs)
      : check_(node, regions), ledger_(costs) {}

  Status PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                  Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    const MappedRegion* region = nullptr;
    Status status = check_.Transfer(from, to, &region);
    if (!status.ok()) [[unlikely]]
      return Close(std::move(status));
    if (to.bytes > 0) std::memcpy(to.data, region->data + from.offset, to.bytes);
    *ticket = ledger_.PostRead(from.bytes, purpose);
    return Status::OK();
  }

  Status PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                   Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    const MappedRegion* region = nullptr;
    Status status = check_.Transfer(to, from, &region);
    if (!status.ok()) [[unlikely]]
      return Close(std::move(status));
    if (from.bytes > 0) std::memcpy(region->data + to.offset, from.data, from.bytes);
    *ticket = ledger_.PostWrite(to.bytes, purpose);
    return Status::OK();
  }

  Status PostCompareAndSwap(const RemoteSpan& word, uint64_t expected, uint64_t desired,
                            uint64_t* prior, Purpose purpose, Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(error_);
    const MappedRegion* region = nullptr;
    Status status = check_.Atomic(word, &region);
    if (!status.ok()) [[unlikely]]
      return Close(std::move(status));
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
    *prior = Word(*region, word.offset).fetch_add(addend);
    *ticket = ledger_.PostAtomic(purpose);
    return Status::OK();
  }

  Status Ring() override {
    DLSM_RETURN_IF_ERROR(error_);
    ledger_.Ring();
    return Status::OK();
  }

  Status Wait(Ticket ticket, Deadline /*deadline*/) override {
    DLSM_RETURN_IF_ERROR(error_);
    ledger_.Ring();
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

  bool closed() const override { return !error_.ok(); }

 private:
  Status Close(Status why) {
    error_ = std::move(why);
    return error_;
  }

  const SpanCheck check_;
  QueuePairLedger ledger_;
  Status error_;  // Not OK: closed, and why.
};

}  // namespace

MappedConnection::MappedConnection(FabricKind kind, NodeId node, RegionTable regions,
                                   std::shared_ptr<const void> owner)
    : kind_(kind), node_(node), owner_(std::move(owner)), regions_(std::move(regions)) {}

Status MappedConnection::NewQueuePair(Deadline /*deadline*/,
                                      std::unique_ptr<QueuePair>* queue_pair) {
  *queue_pair = std::make_unique<MappedQueuePair>(node_, regions_, costs_);
  return Status::OK();
}

}  // namespace dlsm
