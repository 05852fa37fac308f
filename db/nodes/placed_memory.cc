#include "db/nodes/placed_memory.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "db/nodes/flush_room.h"
#include "port/clock.h"
#include "util/log.h"
#include "util/status_macros.h"

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
    const int64_t coming = accounts_[i]->coming_bytes.load(std::memory_order_relaxed);
    const auto free = static_cast<int64_t>(free_bytes(i));
    known[i].free_bytes = static_cast<uint64_t>(std::max<int64_t>(free - coming, 0));
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

PlacedMemory::MergeForecast::MergeForecast(PlacedMemory* memory,
                                           std::vector<uint64_t> input_bytes_at)
    : memory_(memory), input_bytes_at_(std::move(input_bytes_at)), runs_at_(memory->nodes()) {
  for (size_t i = 0; i < input_bytes_at_.size(); ++i) {
    input_bytes_ += input_bytes_at_[i];
    memory_->accounts_[i]->coming_bytes.fetch_sub(static_cast<int64_t>(input_bytes_at_[i]),
                                                  std::memory_order_relaxed);
  }
  port::MutexLock lock(memory->mutex_);
  output_bytes_ = static_cast<int64_t>(static_cast<double>(input_bytes_) * memory->left_by_merges_);
}

void PlacedMemory::MergeForecast::Done(uint64_t bytes_read, uint64_t bytes_written) {
  if (bytes_read == 0) return;
  constexpr double kWeight = 1.0 / 16;
  const double left = static_cast<double>(bytes_written) / static_cast<double>(bytes_read);
  port::MutexLock lock(memory_->mutex_);
  memory_->left_by_merges_ += kWeight * (std::min(left, 1.0) - memory_->left_by_merges_);
}

PlacedMemory::MergeForecast::~MergeForecast() {
  RunsAt(memory_->nodes());
  for (size_t i = 0; i < input_bytes_at_.size(); ++i) {
    memory_->accounts_[i]->coming_bytes.fetch_add(static_cast<int64_t>(input_bytes_at_[i]),
                                                  std::memory_order_relaxed);
  }
}

std::vector<size_t> PlacedMemory::MergeForecast::Order() {
  // Under the lock, so that parts of a merge, which begin together, do not all take the same one.
  port::MutexLock lock(memory_->mutex_);
  std::vector<size_t> order = {0};
  if (memory_->placeable_ > 1) {
    const std::vector<PlacementNode> known = memory_->Known();
    order = OrderForMerge(known, input_bytes_at_, memory_->placer_.Order(known, 1));
  }
  RunsAt(order.front());
  return order;
}

void PlacedMemory::MergeForecast::RunsAt(size_t node) {
  const size_t before = std::exchange(runs_at_, node);
  if (before < memory_->nodes()) {
    Account& account = *memory_->accounts_[before];
    account.coming_bytes.fetch_sub(output_bytes_, std::memory_order_relaxed);
    account.merges_ended.fetch_add(1, std::memory_order_relaxed);
  }
  if (node < memory_->nodes()) {
    Account& account = *memory_->accounts_[node];
    account.coming_bytes.fetch_add(output_bytes_, std::memory_order_relaxed);
    account.merges_begun.fetch_add(1, std::memory_order_relaxed);
  }
}

size_t PlacedMemory::PartsToFit(uint64_t input_bytes) const {
  assert(placeable_ > 0);
  uint64_t most_free = 0;
  uint64_t used = 0;
  for (size_t i = 0; i < placeable_; ++i) {
    if (answers(i)) most_free = std::max(most_free, free_bytes(i));
    used += used_bytes(i);
  }
  const uint64_t most_bytes = std::min(most_free / 2, used / placeable_ / 8);
  return input_bytes > most_bytes ? placeable_ : 1;
}

Status PlacedMemory::Allocate(uint64_t bytes, WhenFull when_full, const std::vector<size_t>& order,
                              RemoteSpan* span) {
  const Statistics::Mine counters = statistics_->OfThisThread();
  Status busy;
  Status failure;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t node = order[i];
    // Who did not answer is asked again only where nobody else could be.
    if (order.size() > 1 && !answers(node) && (busy.IsBusy() || i + 1 < order.size())) continue;
    const Status status = accounts_[node]->memory.Allocate(bytes, /*may_use_reserve=*/false, span);
    if (status.ok()) {
      accounts_[node]->used_bytes.fetch_add(span->bytes, std::memory_order_relaxed);
      if (i > 0) counters.Add(Ticker::kTablesElsewhere);
      return status;
    }
    if (!IsOfOneNode(status)) return status;
    (status.IsBusy() ? busy : failure) = status;
    if (!status.IsBusy() && order.size() > 1) NoteAnswer(node, false);
  }
  const auto allocate_beyond = [&](RemoteMemory* memory) {
    if (when_full == WhenFull::kReserve) return memory->AllocateFromReserve(bytes, span);
    return when_full == WhenFull::kRoomForMerges && memory->AllocateForMerge(bytes, span).ok();
  };
  for (const size_t node : order) {
    if (!answers(node) || !allocate_beyond(&accounts_[node]->memory)) continue;
    accounts_[node]->used_bytes.fetch_add(span->bytes, std::memory_order_relaxed);
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
  for (size_t i = 0; i < accounts_.size(); ++i) KeepFirstError(SendFrees(i), &first_error);
  return first_error;
}

// A database that is idle while others fill the memory node can begin to delete then, of what it
// has there.
uint64_t PlacedMemory::ReserveForTables(size_t node) const {
  constexpr uint64_t kPart = 16;
  return used_bytes(node) / kPart;
}

bool PlacedMemory::RefillReserve(size_t node) {
  RemoteMemory& memory = accounts_[node]->memory;
  if (!memory.full()) memory.GrowReserve(ReserveForTables(node));
  return memory.RefillReserve();
}

void PlacedMemory::GrowReserves(uint64_t bytes) {
  for (size_t i = 0; i < placeable_; ++i) accounts_[i]->memory.GrowReserve(bytes);
}

void PlacedMemory::Cover(uint64_t memtable_bytes) {
  if (covered().data >= memtable_bytes || full()) return;
  GrowReserves(ReserveFor(memtable_bytes));
  for (size_t i = 0; i < placeable_; ++i) {
    if (placeable_ > 1 && !answers(i)) continue;
    if (accounts_[i]->memory.RefillReserve()) return;
    accounts_[i]->memory.NoteUnfilled();
  }
}

RemoteMemory::Covered PlacedMemory::covered() const {
  RemoteMemory::Covered most;
  bool any = false;
  for (size_t i = 0; i < placeable_; ++i) {
    if (placeable_ > 1 && !answers(i)) continue;
    any = true;
    const RemoteMemory::Covered covered = accounts_[i]->memory.covered();
    if (covered.data >= most.data) most = covered;
  }
  if (!any) most.data = most.deletions = UINT64_MAX;
  return most;
}

bool PlacedMemory::reserves_refused() const {
  for (size_t i = 0; i < placeable_; ++i) {
    const bool asked = placeable_ == 1 || answers(i);
    if (asked && !accounts_[i]->memory.reserve_refused()) return false;
  }
  return true;
}

void PlacedMemory::Trim(size_t node, uint64_t memtable_bytes) {
  accounts_[node]->memory.Trim(std::max(IdleReserveFor(memtable_bytes), ReserveForTables(node)));
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
    Log().Warn("memory node {} does not answer: new tables go to others",
               static_cast<uint32_t>(account.id));
  }
}

uint64_t PlacedMemory::MergeMark(size_t node) const {
  const uint64_t begun = accounts_[node]->merges_begun.load(std::memory_order_relaxed);
  const bool runs = accounts_[node]->merges_ended.load(std::memory_order_relaxed) != begun;
  return runs ? UINT64_MAX : begun;
}

void PlacedMemory::NoteReport(size_t node, const HeartbeatReply& report, uint64_t merge_mark) {
  NoteAnswer(node, true);
  Account& account = *accounts_[node];
  const uint64_t available = report.free_bytes + account.memory.idle_bytes() + used_bytes(node);
  // A merge has taken more there than it is going to need, so a report that comes while one runs
  // says too little; it counts only if there has been no better one for long.
  constexpr auto kReportLifetime = std::chrono::seconds(10);
  const bool merging = merge_mark == UINT64_MAX || merge_mark != MergeMark(node);
  const auto now = port::Clock::now();
  if (!merging || available > account.available_bytes.load(std::memory_order_relaxed) ||
      now - account.reported_at > kReportLifetime) {
    account.available_bytes.store(available, std::memory_order_relaxed);
    account.reported_at = now;
  }
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
