#include "benchmarks/simulation/simulated_queue_pair.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "port/clock.h"
#include "util/fabric/span_check.h"
#include "util/status_macros.h"

namespace dlsm::simulation {
namespace {

enum class Kind : uint8_t { kRead, kWrite, kCompareAndSwap, kFetchAdd };

struct Piece {
  uint64_t start = 0;
  uint64_t bytes = 0;
};

struct Request {
  Kind kind = Kind::kRead;
  Ticket ticket{};
  uint64_t offset = 0;  // In the region.
  uint64_t bytes = 0;
  char* local = nullptr;
  std::shared_ptr<char[]> copy;  // Of what is written, once its owner is dead.
  uint64_t operand = 0;          // Desired, or added.
  uint64_t expected = 0;
  uint64_t* prior = nullptr;
  bool lost = false;          // It never arrives.
  bool breaks = false;        // The connection does not live to its end.
  std::vector<Piece> pieces;  // Still to be carried out, the last one first.
};

constexpr std::chrono::seconds kLateMax{20};

}  // namespace

// Shared by the queue pair and the events that carry its requests out.
class TransferQueue : public std::enable_shared_from_this<TransferQueue> {
 public:
  TransferQueue(SimulatedNetwork* network, std::shared_ptr<SimulatedHost> host,
                std::shared_ptr<ServedMemory> memory, std::string token)
      : network_(network),
        host_(std::move(host)),
        memory_(std::move(memory)),
        token_(std::move(token)) {}

  ~TransferQueue() { error_.PermitUncheckedError(); }

  const std::string& token() const { return token_; }
  const SimulatedHost* host() const { return host_.get(); }
  const Status& error() const { return error_; }
  Ticket completed() const { return completed_; }

  void Add(Request request) { posted_.push_back(std::move(request)); }

  void Ring() {
    if (posted_.empty()) return;
    for (Request& request : posted_) {
      if (!broken_ && network_->Loses()) {
        request.lost = true;
        EndUnnoticed();
      }
      request.breaks = !broken_ && network_->Resets();
      Divide(&request);
      rung_.push_back(std::move(request));
    }
    posted_.clear();
    if (!under_way_) {
      under_way_ = true;
      ContinueIn(network_->Delay());
    }
  }

  // Ends it for its owner: what is under way takes place in part, now or never.
  void Close(Status why) {
    const bool closed = !error_.ok();
    KeepFirstError(std::move(why), &error_);
    if (closed) return;
    for (Request& request : rung_) {
      const bool torn = !request.pieces.empty() && network_->random().OneIn(2);
      if (request.lost || !memory_->alive() || broken_) break;
      if (!torn) {
        while (!request.pieces.empty()) CarryOutPiece(&request);
        continue;
      }
      for (uint64_t i = network_->random().Uniform(request.pieces.size()); i > 0; --i) {
        CarryOutPiece(&request);
      }
      if (request.kind == Kind::kWrite) network_->Count(NetworkFault::kTorn);
      break;
    }
    End();
  }

  // The memory node does nothing for it any more; who waits learns of it.
  void End(const char* why) {
    broken_ = true;
    rung_.clear();
    if (error_.ok()) error_ = Lost(why);
    network_->scheduler().Signal(this, /*all=*/true);
  }

  // Its owner is dead. Writes that were on their way may arrive much later.
  void Orphan() {
    if (!error_.ok()) return;
    error_ = Lost("this process has been cut off");
    std::deque<Request> left;
    for (Request& request : rung_) {
      if (request.kind != Kind::kWrite || request.lost || request.pieces.empty()) continue;
      request.copy = std::make_shared<char[]>(request.bytes);
      if (request.bytes > 0) std::memcpy(request.copy.get(), request.local, request.bytes);
      request.local = request.copy.get();
      left.push_back(std::move(request));
    }
    rung_ = std::move(left);
    posted_.clear();
    orphaned_ = true;
    network_->scheduler().Signal(this, /*all=*/true);
  }

 private:
  Status Lost(const char* why) const {
    return Status::IOError(fmt::format("the data connection to memory node {} is lost ({})",
                                       static_cast<uint32_t>(memory_->peer().node), why));
  }

  void End() {
    broken_ = true;
    rung_.clear();
    posted_.clear();
  }

  // Words stay whole; larger transfers have up to four pieces, in any order.
  void Divide(Request* request) {
    Random& random = network_->random();
    const uint64_t words = request->bytes / 8;
    uint64_t count = 1;
    if (words > 1 && random.OneIn(request->kind == Kind::kWrite ? 2 : 4)) {
      count = 2 + random.Uniform(3);
    }
    uint64_t start = 0;
    for (uint64_t i = 1; i < count; ++i) {
      const uint64_t left = (request->bytes - start) / 8;
      const uint64_t bytes = 8 * random.Uniform(left + 1);
      request->pieces.push_back({start, bytes});
      start += bytes;
    }
    request->pieces.push_back({start, request->bytes - start});
    std::shuffle(request->pieces.begin(), request->pieces.end(), random);
  }

  // Nothing arrives any more; who does not wait for anything learns of it some time later.
  void EndUnnoticed() {
    const std::chrono::nanoseconds noticed(network_->random().Uniform(3'000'000'000));
    network_->scheduler().At(network_->scheduler().now() + noticed, [self = shared_from_this()] {
      if (self->orphaned_) return;
      self->Close(self->Lost("silent"));
      self->network_->scheduler().Signal(self.get(), /*all=*/true);
    });
  }

  void ContinueIn(std::chrono::nanoseconds delay) {
    network_->scheduler().At(network_->scheduler().now() + delay,
                             [self = shared_from_this()] { self->Continue(); });
  }

  void Continue() {
    if (rung_.empty() || broken_ || !memory_->alive() || rung_.front().lost) {
      under_way_ = false;
      return;
    }
    Request& request = rung_.front();
    if (request.breaks && !orphaned_) {
      // Close() decides how much of it takes place.
      Close(Lost("reset by the network"));
      network_->scheduler().Signal(this, /*all=*/true);
      return;
    }
    CarryOutPiece(&request);
    if (!request.pieces.empty()) return ContinueIn(Gap());
    if (!orphaned_) {
      network_->scheduler().At(
          network_->scheduler().now() + network_->Delay(),
          [self = shared_from_this(), ticket = request.ticket] { self->Complete(ticket); });
    }
    rung_.pop_front();
    under_way_ = !rung_.empty();
    if (under_way_) ContinueIn(Gap());
  }

  std::chrono::nanoseconds Gap() {
    if (orphaned_) {
      return std::chrono::nanoseconds(
          network_->random().Uniform(std::chrono::nanoseconds(kLateMax).count()));
    }
    return network_->random().OneIn(8) ? network_->Delay() : std::chrono::nanoseconds(200);
  }

  void Complete(Ticket ticket) {
    if (!error_.ok() || ticket <= completed_) return;
    completed_ = ticket;
    network_->scheduler().Signal(this, /*all=*/true);
  }

  void CarryOutPiece(Request* request) {
    const Piece piece = request->pieces.back();
    request->pieces.pop_back();
    char* const at = memory_->data() + request->offset;
    uint64_t word = 0;
    switch (request->kind) {
      case Kind::kRead:
        if (piece.bytes > 0) {
          std::memcpy(request->local + piece.start, at + piece.start, piece.bytes);
        }
        return;
      case Kind::kWrite:
        if (orphaned_) network_->Count(NetworkFault::kLateWrite);
        if (piece.bytes > 0) {
          std::memcpy(at + piece.start, request->local + piece.start, piece.bytes);
        }
        return;
      case Kind::kCompareAndSwap:
        std::memcpy(&word, at, sizeof(word));
        *request->prior = word;
        if (word == request->expected) std::memcpy(at, &request->operand, sizeof(word));
        return;
      case Kind::kFetchAdd:
        std::memcpy(&word, at, sizeof(word));
        *request->prior = word;
        word += request->operand;
        std::memcpy(at, &word, sizeof(word));
        return;
    }
  }

  SimulatedNetwork* const network_;
  const std::shared_ptr<SimulatedHost> host_;
  const std::shared_ptr<ServedMemory> memory_;
  const std::string token_;
  std::vector<Request> posted_;
  std::deque<Request> rung_;
  Ticket completed_{};
  Status error_;           // Not OK: closed, and why.
  bool broken_ = false;    // No request takes place any more.
  bool orphaned_ = false;  // Its owner is dead.
  bool under_way_ = false;
};

namespace {

class SimulatedQueuePair final : public QueuePair {
 public:
  SimulatedQueuePair(SimulatedNetwork* network, std::shared_ptr<TransferQueue> queue, NodeId node,
                     const RegionTable& regions, WireCostRegistry& costs)
      : network_(network), queue_(std::move(queue)), check_(node, regions), ledger_(costs) {}
  ~SimulatedQueuePair() override { queue_->Close(Status::Aborted("the queue pair was destroyed")); }

  Status PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                  Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(Check(check_.Transfer(from, to, &found_)));
    *ticket = ledger_.PostRead(from.bytes, purpose);
    return Add(Kind::kRead, from, to.data, *ticket);
  }
  Status PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                   Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(Check(check_.Transfer(to, from, &found_)));
    *ticket = ledger_.PostWrite(to.bytes, purpose);
    return Add(Kind::kWrite, to, from.data, *ticket);
  }
  Status PostCompareAndSwap(const RemoteSpan& word, uint64_t expected, uint64_t desired,
                            uint64_t* prior, Purpose purpose, Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(Check(check_.Atomic(word, &found_)));
    *ticket = ledger_.PostAtomic(purpose);
    return Add(Kind::kCompareAndSwap, word, nullptr, *ticket, desired, expected, prior);
  }
  Status PostFetchAdd(const RemoteSpan& word, uint64_t addend, uint64_t* prior, Purpose purpose,
                      Ticket* ticket) override {
    DLSM_RETURN_IF_ERROR(Check(check_.Atomic(word, &found_)));
    *ticket = ledger_.PostAtomic(purpose);
    return Add(Kind::kFetchAdd, word, nullptr, *ticket, addend, 0, prior);
  }

  Status Ring() override {
    DLSM_RETURN_IF_ERROR(queue_->error());
    ledger_.Ring();
    queue_->Ring();
    return Status::OK();
  }

  Status Wait(Ticket ticket, Deadline deadline) override {
    DLSM_RETURN_IF_ERROR(Ring());
    ledger_.Wait(ticket);
    while (queue_->error().ok() && queue_->completed() < ticket) {
      if (deadline.Passed()) {
        queue_->Close(Status::TimedOut("the memory node did not answer a transfer in time"));
        break;
      }
      static_cast<void>(network_->scheduler().Await(queue_.get(), deadline.time_point()));
    }
    return queue_->completed() >= ticket ? Status::OK() : queue_->error();
  }

  char* Direct(const RemoteSpan& /*span*/) override { return nullptr; }
  void CountDirectRead(uint64_t /*bytes*/, Purpose /*purpose*/) override {}
  void CountDirectWrite(uint64_t /*bytes*/, Purpose /*purpose*/) override {}
  size_t worth_ringing() const override { return kReadsWorthRinging; }
  bool closed() const override { return !queue_->error().ok(); }

 private:
  Status Check(Status checked) {
    checked.PermitUncheckedError();  // A queue pair that has failed before says why.
    DLSM_RETURN_IF_ERROR(queue_->error());
    if (!checked.ok()) queue_->Close(checked);
    return checked;
  }
  Status Add(Kind kind, const RemoteSpan& remote, char* local, Ticket ticket, uint64_t operand = 0,
             uint64_t expected = 0, uint64_t* prior = nullptr) {
    Request request;
    request.kind = kind;
    request.ticket = ticket;
    request.offset = remote.offset;
    request.bytes = remote.bytes;
    request.local = local;
    request.operand = operand;
    request.expected = expected;
    request.prior = prior;
    queue_->Add(std::move(request));
    return Status::OK();
  }

  SimulatedNetwork* const network_;
  const std::shared_ptr<TransferQueue> queue_;
  const SpanCheck check_;
  QueuePairLedger ledger_;
  const MappedRegion* found_ = nullptr;
};

}  // namespace

// -------- The memory node's end

void ServedMemory::Join(const std::shared_ptr<TransferQueue>& queue) {
  std::erase_if(queues_, [](const auto& each) { return each.expired(); });
  queues_.push_back(queue);
}

bool ServedMemory::Allows(const std::string& token) const {
  return std::find(allowed_.begin(), allowed_.end(), token) != allowed_.end();
}

void ServedMemory::CutOff(const std::string& token) {
  std::erase(allowed_, token);
  for (const auto& each : queues_) {
    const auto queue = each.lock();
    if (queue != nullptr && queue->token() == token) queue->End("the memory node has ended it");
  }
}

void ServedMemory::Orphan(const SimulatedHost* host) {
  for (const auto& each : queues_) {
    const auto queue = each.lock();
    if (queue != nullptr && queue->host() == host) queue->Orphan();
  }
}

void ServedMemory::End() {
  alive_ = false;
  for (const auto& each : queues_) {
    if (const auto queue = each.lock()) queue->End("its process has ended");
  }
}

// -------- The client's end

SimulatedFabricConnection::SimulatedFabricConnection(SimulatedNetwork* network,
                                                     std::shared_ptr<SimulatedHost> host,
                                                     std::shared_ptr<ServedMemory> memory,
                                                     FindMemory find, std::string token)
    : network_(network),
      host_(std::move(host)),
      memory_(std::move(memory)),
      find_(std::move(find)),
      token_(std::move(token)) {
  for (const RegionInfo& region : memory_->peer().regions) {
    regions_.Add(MappedRegion{region.id, nullptr, region.bytes});
  }
}

Status SimulatedFabricConnection::NewQueuePair(Deadline deadline,
                                               std::unique_ptr<QueuePair>* queue_pair) {
  const auto answer = network_->scheduler().now() + network_->Delay() + network_->Delay();
  port::SleepUntil(std::min(answer, deadline.time_point()));
  if (answer > deadline.time_point()) return Status::TimedOut("no queue pair in time");
  const std::shared_ptr<ServedMemory> now = find_();
  if (now != nullptr && now->peer().boot == memory_->peer().boot) memory_ = now;
  if (!host_->alive || !memory_->alive() || network_->Resets()) {
    return Status::IOError(
        fmt::format("cannot reach memory node {}", static_cast<uint32_t>(memory_->peer().node)));
  }
  if (!memory_->Allows(token_)) {
    return Status::IOError(fmt::format("memory node {} has cut this client off",
                                       static_cast<uint32_t>(memory_->peer().node)));
  }
  auto queue = std::make_shared<TransferQueue>(network_, host_, memory_, token_);
  memory_->Join(queue);
  *queue_pair = std::make_unique<SimulatedQueuePair>(network_, std::move(queue),
                                                     memory_->peer().node, regions_, costs_);
  return Status::OK();
}

}  // namespace dlsm::simulation
