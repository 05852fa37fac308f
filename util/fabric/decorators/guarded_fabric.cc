#include "util/fabric/decorators/guarded_fabric.h"

#include <utility>

#include "util/status_macros.h"

namespace dlsm {
namespace {

class GuardedQueuePair final : public QueuePair {
 public:
  GuardedQueuePair(const TransferGuard& guard, std::unique_ptr<QueuePair> inner)
      : guard_(guard), inner_(std::move(inner)) {}

  Status PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                  Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(guard_.Check());
    return inner_->PostRead(from, to, purpose, ticket);
  }
  Status PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                   Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(guard_.Check());
    return inner_->PostWrite(from, to, purpose, ticket);
  }
  Status PostCompareAndSwap(const RemoteSpan& word, uint64_t expected, uint64_t desired,
                            uint64_t* prior, Purpose purpose, Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(guard_.Check());
    return inner_->PostCompareAndSwap(word, expected, desired, prior, purpose, ticket);
  }
  Status PostFetchAdd(const RemoteSpan& word, uint64_t addend, uint64_t* prior, Purpose purpose,
                      Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(guard_.Check());
    return inner_->PostFetchAdd(word, addend, prior, purpose, ticket);
  }
  Status Ring() override { return inner_->Ring(); }

  // The local buffer is the caller's again in any case, so the inner wait comes first.
  Status Wait(Ticket ticket, Deadline deadline) override {
    DLSM_RETURN_IF_ERROR(inner_->Wait(ticket, deadline));
    return guard_.Check();
  }

  char* Direct(const RemoteSpan& /*span*/) override { return nullptr; }
  void CountDirectRead(uint64_t bytes, Purpose purpose) override {
    inner_->CountDirectRead(bytes, purpose);
  }
  void CountDirectWrite(uint64_t bytes, Purpose purpose) override {
    inner_->CountDirectWrite(bytes, purpose);
  }
  size_t worth_ringing() const override { return inner_->worth_ringing(); }
  bool closed() const override { return inner_->closed(); }

 private:
  const TransferGuard& guard_;
  const std::unique_ptr<QueuePair> inner_;
};

class GuardedConnection final : public FabricConnection {
 public:
  GuardedConnection(std::shared_ptr<const TransferGuard> guard,
                    std::unique_ptr<FabricConnection> inner)
      : guard_(std::move(guard)), inner_(std::move(inner)) {}

  FabricKind kind() const override { return inner_->kind(); }
  Status NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) override {
    std::unique_ptr<QueuePair> inner;
    DLSM_RETURN_IF_ERROR(inner_->NewQueuePair(deadline, &inner));
    *queue_pair = std::make_unique<GuardedQueuePair>(*guard_, std::move(inner));
    return Status::OK();
  }
  Status NewBuffer(size_t bytes, RegisteredBuffer* buffer) override {
    return inner_->NewBuffer(bytes, buffer);
  }
  bool MayStillLand() const override { return inner_->MayStillLand(); }
  WireTotals Totals() const override { return inner_->Totals(); }
  WaitCounts Waits() const override { return inner_->Waits(); }
  int numa_node() const override { return inner_->numa_node(); }
  std::string Describe() const override { return inner_->Describe(); }

 private:
  const std::shared_ptr<const TransferGuard> guard_;
  const std::unique_ptr<FabricConnection> inner_;
};

}  // namespace

std::unique_ptr<FabricConnection> GuardTransfers(std::shared_ptr<const TransferGuard> guard,
                                                 std::unique_ptr<FabricConnection> inner) {
  return std::make_unique<GuardedConnection>(std::move(guard), std::move(inner));
}

}  // namespace dlsm
