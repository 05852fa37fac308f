// Between the work: heartbeats, frees, room, and what reads have worn.
#include <algorithm>
#include <chrono>
#include <utility>

#include "db/background/background.h"
#include "db/background/shed_metadata.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// After which what nobody waits for is tried again where there may be room for it.
constexpr auto kUnawaitedRetryPause = std::chrono::seconds(1);

}  // namespace

void Background::Heartbeat(size_t node, bool asleep) {
  // A session that was not taken over like others of the handle ends with its lease once it is not
  // renewed any more, and over shm nothing else keeps reads from what is others' memory then. What
  // is still being written is waited for first, for its memory is given back after that.
  if (const Status taken = fence_->status(); !taken.ok()) {
    const port::MutexLock lock(mutex_);
    if (flushes_running_ == 0 && merges_.empty() &&
        ingests_running_.load(std::memory_order_acquire) == 0) {
      store_->queue_pairs()->End(nodes_[node].as_peer.node, taken);
      return;
    }
  }
  Status status = SendHeartbeat(node);
  bool for_good = !nodes_[node].rpc->lost().ok();
  if (status.IsAborted()) {  // The session has ended.
    for_good = true;
    status = Status::IOError(status.message());
    store_->queue_pairs()->End(nodes_[node].as_peer.node, status);
  }
  if (!status.ok()) store_->memory()->NoteSilence(node);
  // With the session went what its merges had made, so that nothing of it is left to be told: else
  // what was lost would add up, and in the end keep merges from failing with their cause.
  MergeNumbers& numbers = *nodes_[node].numbers;
  if (for_good) numbers.Told(numbers.Answers());
  // Without its home nothing becomes durable. Other shards go on, and what they have is flushed.
  if (node == kHome && for_good && !status.ok()) {
    gate_->Refuse(status);
    if (home_lost_) home_lost_(status);
  }
  NoteHeartbeat(node, status, asleep);
}

void Background::NoteRenewed(size_t node, const RenewedSession& renewed) {
  port::MutexLock lock(mutex_);
  NoteRoomLocked(node, {.for_merges = renewed.free_bytes,
                        .for_data = renewed.grantable_bytes,
                        .wanted = renewed.others_want_room});
}

// While all rest, one that is answered as the one before changes nothing for anybody.
void Background::NoteHeartbeat(size_t node, const Status& status, bool asleep) {
  if (asleep && status.ok() && answers(node)) return;
  NoteOutcome(kHouse + node, status);
}

bool Background::answers(size_t node) const {
  port::MutexLock lock(mutex_);
  return !failures_[kHouse + node].any();
}

Status Background::SendHeartbeat(size_t number) {
  const MergeNode& node = nodes_[number];
  HeartbeatRequest request;
  request.session = node.session;
  request.publications_from = config_.publications_from;
  request.answers = node.numbers->Answers();
  const uint64_t sent = node.load->sent_bytes();
  const uint64_t merge_mark = store_->memory()->MergeMark(number);
  std::string reply_bytes;
  DLSM_RETURN_IF_ERROR(node.rpc->Call(Method::kHeartbeat, request.Encode(), &reply_bytes,
                                      Deadline::In(config_.timeout)));
  node.numbers->Told(request.answers);
  HeartbeatReply reply;
  DLSM_RETURN_IF_ERROR(reply.Decode(reply_bytes));
  node.load->NoteReport(reply.merges, sent);
  store_->memory()->NoteReport(number, reply, merge_mark);
  port::MutexLock lock(mutex_);
  NoteRoomLocked(number, {.for_merges = reply.free_bytes,
                          .for_data = reply.grantable_bytes,
                          .wanted = reply.others_want_room});
  return Status::OK();
}

// Where tables go to several memory nodes, the room of all of them counts.
void Background::NoteRoomLocked(size_t node, const RoomLeft& left) {
  if (!store_->memory()->placeable(node)) return;
  room_of_nodes_[node] = left;
  RoomLeft sum{.for_merges = 0, .for_data = 0};
  for (size_t i = 0; i < nodes_.size() && store_->memory()->placeable(i); ++i) {
    if (!room_of_nodes_[i].has_value()) return;
    sum.for_merges += room_of_nodes_[i]->for_merges;
    sum.for_data += room_of_nodes_[i]->for_data;
    sum.wanted |= room_of_nodes_[i]->wanted;
  }
  const uint64_t own_bytes = tree_->views().Current()->version->bytes();
  room_.NoteReport(sum, own_bytes);
  begun_since_report_.clear();
  // A merge may be due that has not fitted beside others.
  if (sum.IsPressing(own_bytes) || sum.wanted || !merges_.empty()) ChangedLocked();
}

// Reads wake nobody; where there were some, a policy may want to merge what they visited, and the
// more so once writes have ended.
void Background::LookAtTraffic() {
  const uint64_t reads = Reads();
  port::MutexLock lock(mutex_);
  LookAtWritesLocked();
  if (std::exchange(reads_seen_, reads) == reads) return;
  reads_seen_at_ = Clock::now();
  ChangedLocked();
}

uint64_t Background::Reads() const {
  return statistics_->Get(Ticker::kSeeks) + statistics_->Get(Ticker::kKeysRead);
}

// What is tried again after a failure may find room in between, and writers that wait are let in
// by who keeps the house.
bool Background::Rests(size_t node) const {
  if (fence_->raised() || !gate_->refusal().ok()) return true;  // Nothing comes of it any more.
  if (store_->memory()->queued_free_bytes(node) > 0 || tree_->HasMemtableToFlush() ||
      gate_keeper_.must_judge_again() || gate_->closed(StallReason::kMemory)) {
    return false;
  }
  const uint64_t reads = Reads();
  const uint64_t writes = statistics_->Get(Ticker::kKeysWritten);
  constexpr auto kRestsAfterReads = std::chrono::seconds(1);
  port::MutexLock lock(mutex_);
  const bool works = flushes_running_ > 0 || !merges_.empty() || waiting_for_flush_ > 0 ||
                     waiting_for_idle_ > 0 || manual_compactions_ > 0 || failures_[kFlush].any() ||
                     failures_[kMerge].any();
  return !works && quiet_ && trimmed_[node] && writes == quiet_watch_.keys_written() &&
         reads == reads_seen_ && Clock::now() - reads_seen_at_ >= kRestsAfterReads;
}

void Background::LookAtWritesLocked() {
  // Of all shards.
  const auto now = Clock::now();
  quiet_watch_.Note(now, statistics_->Get(Ticker::kKeysWritten),
                    statistics_->Get(Ticker::kFlushes));
  // Writers that wait are no sign that there are none.
  const bool waiting = writers_wait_() || flushes_running_ > 0;
  const bool quiet = quiet_watch_.IsQuiet(now, /*awaited=*/waiting_for_idle_ > 0) && !waiting;
  chooser_.policy().SetQuiet(quiet);
  if (std::exchange(quiet_, quiet) != quiet) ChangedLocked();
}

bool Background::MergesAreFree() const {
  return std::ranges::all_of(nodes_, [this](const MergeNode& node) {
    return node.load->HasSpareProcessor(/*local=*/MergesHere());
  });
}

void Background::KeepHouse(size_t node) {
  if (node == kHome) LookAfterTree();
  if (!fence_->raised() && !config_.read_only) LookAfterMemory(node);
}

void Background::LookAfterTree() {
  tree_->views().Reclaim();
  LookAtTraffic();
  gate_keeper_.LookForPauses();
  // Writers come by again, but nobody needs to write any more.
  if (gate_keeper_.must_judge_again()) LookAtMemtable();
  ShedMetadata(*store_, tree_, &metadata_hand_);
}

void Background::LookAfterMemory(size_t node) {
  PlacedMemory& memory = *store_->memory();
  // An error stays with the heartbeat, which meets it too. Nothing here waits for another memory
  // node than this one, whose sessions would end with it.
  if (node == kHome) manifests_->TryEndDoubt().PermitUncheckedError();
  if (memory.queued_free_bytes(node) > 0) memory.SendFrees(node).PermitUncheckedError();
  NoticeRoom(node);
  TrimIfIdle(node);
}

void Background::NoticeRoom(size_t node) {
  PlacedMemory& memory = *store_->memory();
  const bool was_full = memory.full(node);
  if (!memory.RefillReserve(node) && memory.full(node)) return;
  // A publication finds room as well, without opening the gate; and where there is nothing to flush
  // or to merge, nobody else would.
  if (!was_full && !gate_keeper_.lacks_room()) return;
  UpdateGate();
  if (!was_full && gate_->closed(StallReason::kMemory)) return;  // Another node is full.
  TryAgainWithRoom();
}

void Background::TrimIfIdle(size_t node) {
  {
    port::MutexLock lock(mutex_);
    const bool idle = quiet_watch_.IsIdle(Clock::now()) && flushes_running_ == 0 && merges_.empty();
    const bool trimmed = trimmed_[node];
    trimmed_[node] = idle;
    if (!idle || trimmed) return;
  }
  const Tree::MemtableUsage usage = tree_->Usage();
  PlacedMemory& memory = *store_->memory();
  memory.Trim(node, usage.active_bytes + usage.immutable_bytes);
  UpdateGate();  // It is to be looked at again sooner.
  if (memory.queued_free_bytes(node) > 0) memory.SendFrees(node).PermitUncheckedError();
}

// What failed for want of room need not wait for its next attempt if somebody waits for it. It has
// failed all the same: the room may be what that very attempt has given back. So where nobody waits
// it is not tried again at once, time after time.
void Background::TryAgainWithRoom() {
  const bool writers_wait = writers_wait_();
  port::MutexLock lock(mutex_);
  const bool awaited =
      writers_wait || waiting_for_flush_ > 0 || waiting_for_idle_ > 0 || manual_compactions_ > 0;
  const auto retry_by = awaited ? Clock::now() : Clock::now() + kUnawaitedRetryPause;
  for (const size_t kind : {kFlush, kMerge}) failures_[kind].RetryBy(retry_by);
  ChangedLocked();
}

}  // namespace dlsm
