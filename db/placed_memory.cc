#include "db/placed_memory.h"

#include <algorithm>
#include <cassert>

#include "util/log.h"

namespace dlsm {
namespace {

// What says of one node that another may serve.
bool IsOfOneNode(const Status& status) {
  return status.IsBusy() || status.IsIOError() || status.IsTimedOut();
}

}  // namespace

PlacedMemory::PlacedMemory(const Config& config, const std::vector<Node>& nodes,
                           Statistics* statistics)
    : statistics_(statistics), placer_(config.placement, config.power_of_d, config.seed) {
  assert(!nodes.empty());
  for (const Node& node : nodes) {
    accounts_.push_back(std::make_unique<Account>(node, statistics));
  }
  if (config.placement != TablePlacement::kByShard) placeable_ = nodes.size();
  width_ = std::clamp<size_t>(config.scatter_width, 1, placeable_);
}

size_t PlacedMemory::NumberOf(NodeId node) const {
  size_t i = 0;
  while (i < accounts_.size() && accounts_[i]->id != node) ++i;
  return i;
}

PlacedMemory::Account* PlacedMemory::AccountOf(const RemoteSpan& span) const {
  const size_t node = NumberOf(span.node);
  return node < accounts_.size() ? accounts_[node].get() : nullptr;
}

std::vector<PlacementNode> PlacedMemory::Known() const {
  std::vector<PlacementNode> known(accounts_.size());
  for (size_t i = 0; i < known.size(); ++i) {
    known[i].free_bytes = free_bytes(i);
    known[i].used_bytes = used_bytes(i);
    known[i].merge_bytes_waiting =
        accounts_[i]->merge_bytes_waiting.load(std::memory_order_relaxed);
    known[i].usable = answers(i) && !full(i);
  }
  return known;
}

std::vector<size_t> PlacedMemory::Order(size_t width) {
  if (placeable_ == 1) return {0};
  const std::vector<PlacementNode> known = Known();
  port::MutexLock lock(mutex_);
  return placer_.Order(known, width);
}

std::vector<size_t> PlacedMemory::MergeOrder(const std::vector<uint64_t>& input_bytes_at) {
  if (placeable_ == 1) return {0};
  const std::vector<PlacementNode> known = Known();
  port::MutexLock lock(mutex_);
  return OrderForMerge(known, input_bytes_at, placer_.Order(known, 1));
}

Status PlacedMemory::Allocate(uint64_t bytes, bool may_use_reserve,
                              const std::vector<size_t>& order, RemoteSpan* span) {
  Status busy;
  Status failure;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t node = order[i];
    // Who did not answer is asked again only where nobody else could be.
    if (order.size() > 1 && !answers(node) && (busy.IsBusy() || i + 1 < order.size())) continue;
    const Status status = accounts_[node]->memory.Allocate(bytes, /*may_use_reserve=*/false, span);
    if (status.ok()) {
      accounts_[node]->used_bytes.fetch_add(span->bytes, std::memory_order_relaxed);
      if (i > 0) statistics_->Add(Ticker::kTablesElsewhere);
      return status;
    }
    if (!IsOfOneNode(status)) return status;
    (status.IsBusy() ? busy : failure) = status;
    if (!status.IsBusy() && order.size() > 1) NoteAnswer(node, false);
  }
  for (size_t i = 0; may_use_reserve && i < order.size(); ++i) {
    if (!answers(order[i]) || !accounts_[order[i]]->memory.AllocateFromReserve(bytes, span)) {
      continue;
    }
    accounts_[order[i]]->used_bytes.fetch_add(span->bytes, std::memory_order_relaxed);
    return Status::OK();
  }
  return busy.IsBusy() ? busy : failure;
}

void PlacedMemory::Shrink(const RemoteSpan& allocated, uint64_t bytes) {
  Account* const account = AccountOf(allocated);
  account->memory.Shrink(allocated, bytes);
  account->used_bytes.fetch_sub(allocated.bytes, std::memory_order_relaxed);
}

void PlacedMemory::FreeAllocated(const RemoteSpan& allocated) {
  Account* const account = AccountOf(allocated);
  account->memory.Free(allocated);
  account->used_bytes.fetch_sub(allocated.bytes, std::memory_order_relaxed);
}

void PlacedMemory::Free(const RemoteSpan& span) {
  if (Account* const account = AccountOf(span); account != nullptr) account->memory.Free(span);
}

void PlacedMemory::NoteTable(const RemoteSpan& span) {
  Account* const account = AccountOf(span);
  if (account != nullptr) account->used_bytes.fetch_add(span.bytes, std::memory_order_relaxed);
}

void PlacedMemory::NoteTableGone(const RemoteSpan& span) {
  Account* const account = AccountOf(span);
  if (account != nullptr) account->used_bytes.fetch_sub(span.bytes, std::memory_order_relaxed);
}

Status PlacedMemory::SendFrees(size_t node) { return accounts_[node]->memory.SendFrees(); }

Status PlacedMemory::SendFrees() {
  Status first_error;
  for (size_t i = 0; i < accounts_.size(); ++i) {
    const Status sent = SendFrees(i);
    if (first_error.ok()) first_error = sent;
  }
  return first_error;
}

bool PlacedMemory::full() const {
  size_t refusing = 0;
  for (size_t i = 0; i < placeable_; ++i) {
    if (full(i)) {
      ++refusing;
    } else if (placeable_ == 1 || answers(i)) {
      return false;
    }
  }
  // Where nobody answers that is the cause, not a want of room.
  return refusing > 0;
}

Status PlacedMemory::full_reason() const {
  for (size_t i = 0; i < placeable_; ++i) {
    if (!full(i)) continue;
    const Status reason = accounts_[i]->memory.full_reason();
    if (placeable_ == 1) return reason;
    return Status::FromCode(reason.code(), "all memory nodes are full, of which one says: " +
                                               reason.message().ToString());
  }
  return Status::OK();
}

void PlacedMemory::NoteAnswer(size_t node, bool answers) {
  Account& account = *accounts_[node];
  const bool answered = account.answers.exchange(answers, std::memory_order_relaxed);
  if (answered && !answers && nodes() > 1) {
    Log().warn("memory node {} does not answer: new tables go to others",
               static_cast<uint32_t>(account.id));
  }
}

void PlacedMemory::NoteReport(size_t node, const HeartbeatReply& report) {
  NoteAnswer(node, true);
  Account& account = *accounts_[node];
  const uint64_t used = account.used_bytes.load(std::memory_order_relaxed);
  account.available_bytes.store(report.free_bytes + account.memory.idle_bytes() + used,
                                std::memory_order_relaxed);
  account.merge_bytes_waiting.store(report.merges.bytes_waiting, std::memory_order_relaxed);
}

uint64_t PlacedMemory::free_bytes(size_t node) const {
  const uint64_t available = accounts_[node]->available_bytes.load(std::memory_order_relaxed);
  const uint64_t used = used_bytes(node);
  return available > used ? available - used : 0;
}

uint64_t PlacedMemory::free_bytes() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < placeable_; ++i) bytes += full(i) ? 0 : free_bytes(i);
  return bytes;
}

}  // namespace dlsm
