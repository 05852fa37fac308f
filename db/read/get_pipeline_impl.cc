#include "db/read/get_pipeline_impl.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <utility>

#include "db/read/table_lookup.h"
#include "port/allocation_point.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// So many lookups take their steps together: enough for their cache misses to overlap, and few
// enough that the network does not wait for them.
constexpr size_t kLocatedTogether = 16;
static_assert(kLocatedTogether <= kLookupsTogetherMax);

}  // namespace

GetPipelineImpl::GetPipelineImpl(std::unique_ptr<LookupPlaces> places,
                                 const TableReadOptions& options, size_t depth,
                                 std::shared_ptr<Statistics> statistics)
    : places_(std::move(places)),
      options_(options),
      statistics_(std::move(statistics)),
      slots_(depth) {}

Status GetPipelineImpl::Submit(const Slice& key, uint64_t tag) try {
  if (outstanding_ == slots_.size()) {
    return Status::Busy(
        fmt::format("{} gets are outstanding: take an answer with Next() first", outstanding_));
  }
  DLSM_RETURN_IF_ERROR(BeginNext(key, tag));
  ++outstanding_;
  const size_t half = (slots_.size() + 1) / 2;
  if (++begun_ >= std::min(kLocatedTogether, half)) LocateBegun();
  // Half of the gets with one doorbell: the others keep the network busy meanwhile.
  if (located_ >= half) PostAll();
  return Status::OK();
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

void GetPipelineImpl::SetState(Slot* slot, State state) {
  if (slot->state == State::kLocated) --located_;
  if (state == State::kLocated) ++located_;
  slot->state = state;
}

void GetPipelineImpl::Finish(Slot* slot, Status status) {
  slot->request->status = std::move(status);
  slot->request->status.PermitUncheckedError();  // A pipeline may go away with answers in it.
  SetState(slot, State::kAnswered);
}

// In the slot that is outstanding next. It is not yet: what fails here leaves nothing to be
// answered.
Status GetPipelineImpl::BeginNext(const Slice& key, uint64_t tag) {
  if (options_.limited) DLSM_RETURN_IF_ERROR(options_.CheckDeadline());
  LookupPlace place;
  DLSM_RETURN_IF_ERROR(places_->Of(key, &place));
  Slot& slot = SlotAt(outstanding_);
  slot.tag = tag;
  slot.holder = std::move(place.holder);
  slot.connections = std::move(place.connections);
  slot.guard = place.guard;
  LookupRequest& request = slot.request.emplace(key, place.sequence);
  request.reader = place.reader;
  request.view = place.view;
  request.value = &slot.value;
  statistics_->Add(Ticker::kKeysRead);
  slot.lookup.Start(&request);
  SetState(&slot, slot.lookup.AskMemtables() ? State::kAnswered : State::kBegun);
  return Status::OK();
}

void GetPipelineImpl::LocateBegun() {
  std::array<Slot*, kLocatedTogether> slots;
  std::array<TableLookup*, kLocatedTogether> lookups;
  size_t count = 0;
  for (size_t i = outstanding_ - begun_; i < outstanding_; ++i) {
    Slot& slot = SlotAt(i);
    if (slot.state != State::kBegun) continue;
    slots[count] = &slot;
    lookups[count++] = &slot.lookup;
  }
  begun_ = 0;
  FindCandidatesTogether(std::span(lookups).first(count));
  ApproachTogether(std::span(lookups).first(count), options_);
  for (Slot* const slot : std::span(slots).first(count)) GoOn(slot);
}

// On to the next candidate's record; without one, or after an error, the answer is there.
void GetPipelineImpl::GoOn(Slot* slot) {
  if (!slot->lookup.Advance(options_)) return SetState(slot, State::kAnswered);
  Status located = Locate(slot);
  if (!located.ok()) Finish(slot, std::move(located));
}

Status GetPipelineImpl::Locate(Slot* slot) {
  SetState(slot, State::kInPlace);
  slot->in_place.clear();
  const RemoteSpan span = slot->lookup.to_fetch();
  if (span.bytes == 0) return Status::OK();
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(QueuePairOf(*slot, &queue_pair));
  slot->in_place = RecordInPlace(queue_pair, span, options_);
  if (!slot->in_place.empty()) return Status::OK();
  if (options_.limited) DLSM_RETURN_IF_ERROR(options_.CheckTransfer());
  SetState(slot, State::kLocated);
  return Status::OK();
}

// All reads that are due, with one doorbell for each memory node. A doorbell that fails fails for
// who waits.
void GetPipelineImpl::PostAll() {
  std::vector<Slot*> last_posted;  // By way.
  for (size_t i = 0; i < outstanding_; ++i) {
    Slot& slot = SlotAt(i);
    if (slot.state != State::kLocated) continue;
    QueuePair* queue_pair = nullptr;
    Status posted = QueuePairOf(slot, &queue_pair);
    if (posted.ok()) posted = Post(queue_pair, &slot);
    if (!posted.ok()) {
      Finish(&slot, posted);
      if (queue_pair == nullptr || queue_pair->closed()) FailFetchesWith(slot, posted);
      continue;
    }
    const auto same_way = [&](const Slot* other) { return WayOf(*other) == WayOf(slot); };
    const auto found = std::ranges::find_if(last_posted, same_way);
    if (found == last_posted.end()) {
      last_posted.push_back(&slot);
    } else {
      *found = &slot;
    }
  }
  for (const Slot* const slot : last_posted) {
    QueuePair* queue_pair = nullptr;
    if (slot->state != State::kPosted || !QueuePairOf(*slot, &queue_pair).ok()) continue;
    queue_pair->Ring().PermitUncheckedError();
  }
  for (Slot* const slot : last_posted) BoundHeld(slot);
}

// A thread that submits and never takes an answer must not hold more and more buffers.
void GetPipelineImpl::BoundHeld(Slot* slot) {
  constexpr size_t kHeldMax = 2 * kGetPipelineDepthMax;
  QueuePair* queue_pair = nullptr;
  if (slot->state != State::kPosted || !QueuePairOf(*slot, &queue_pair).ok()) return;
  if (queue_pair->held().size() <= kHeldMax || !queue_pair->held().Holds(*slot->fetch)) return;
  const Status arrived = Wait(slot);
  if (!arrived.ok()) FailFetchesWith(*slot, arrived);
}

bool GetPipelineImpl::Fits(const Fetch& fetch, const Slot& slot) {
  return fetch.way == WayOf(slot) && !fetch.connections.owner_before(slot.connections) &&
         !slot.connections.owner_before(fetch.connections) &&
         fetch.buffer.bytes() >= slot.lookup.to_fetch().bytes;
}

// A read for whose buffer or place among those held there is no memory is not under way.
Status GetPipelineImpl::Post(QueuePair* queue_pair, Slot* slot) try {
  const RemoteSpan span = slot->lookup.to_fetch();
  queue_pair->held().MakeRoom();
  // One that a queue pair still holds, whose thread has not waited for it, is not ours to use.
  std::shared_ptr<Fetch>& fetch = slot->fetch;
  if (fetch == nullptr || fetch.use_count() > 1 || !Fits(*fetch, *slot)) {
    fetch = std::make_shared<Fetch>();
    fetch->way = WayOf(*slot);
    fetch->connections = slot->connections;
    constexpr size_t kBufferBytesMin = 512;
    DLSM_RETURN_IF_ERROR(slot->request->reader->queue_pairs()->NewBuffer(
        span.node, std::max<size_t>(span.bytes, kBufferBytesMin), &fetch->buffer));
  }
  fetch->Reset();
  DLSM_RETURN_IF_ERROR(queue_pair->PostRead(span, fetch->buffer.span().Sub(0, span.bytes),
                                            options_.purpose, &fetch->ticket));
  queue_pair->held().Hold(fetch->ticket, fetch);
  SetState(slot, State::kPosted);
  return Status::OK();
} catch (const std::bad_alloc&) {
  return OutOfTransferMemory();
}

bool GetPipelineImpl::Next(Answer* answer) try {
  if (answer == nullptr || outstanding_ == 0) return false;
  Slot& slot = SlotAt(0);
  const Status open = places_->CheckOpen();
  if (!made_by_.IsHere()) {  // What the slot holds is another process's.
    *answer = {slot.tag, open, {}};
    TakeOldest();
    return true;
  }
  if (!open.ok()) Finish(&slot, open);
  if (slot.state == State::kBegun) LocateBegun();
  while (slot.state != State::kAnswered) Continue(&slot);
  answer->tag = slot.tag;
  if (open.ok()) {
    answer->status = Outcome(slot);
  } else {
    answer->status = open;
  }
  answer->value.swap(slot.value);
  if (!answer->status.ok()) answer->value.clear();
  Tidy(&slot);
  TakeOldest();
  return true;
} catch (const std::bad_alloc&) {
  EndForLackOfMemory();
}

void GetPipelineImpl::TakeOldest() {
  oldest_ = (oldest_ + 1) % slots_.size();
  --outstanding_;
  begun_ = std::min(begun_, outstanding_);
}

// The answer to a get that has come to its end.
Status GetPipelineImpl::Outcome(const Slot& slot) {
  const LookupRequest& request = *slot.request;
  Status status = request.status;
  if (status.ok() && slot.guard != nullptr) status = slot.guard->Check();
  if (!status.ok()) return places_->Explain(request.key.user_key(), status);
  if (request.state != LookupState::kFound) return Status::NotFound(Slice());
  statistics_->Add(Ticker::kKeysFound);
  statistics_->Add(Ticker::kBytesRead, slot.value.size());
  return Status::OK();
}

// Waits for the record that was asked for, and looks at it.
void GetPipelineImpl::Continue(Slot* slot) {
  Slice bytes;
  Status arrived = Arrive(slot, &bytes);
  if (!arrived.ok()) {
    Finish(slot, std::move(arrived));
  } else if (slot->state == State::kAnswered ||
             slot->lookup.Decode(bytes, /*holder=*/nullptr, options_)) {
    SetState(slot, State::kAnswered);
  } else {
    GoOn(slot);
  }
}

// What an answered get leaves for the next one in its place.
void GetPipelineImpl::Tidy(Slot* slot) {
  // Rare large records must not leave each of thousands of slots with memory for one.
  constexpr size_t kKeptBytesMax = size_t{64} << 10;
  slot->holder = nullptr;
  if (slot->fetch != nullptr && slot->fetch->buffer.bytes() > kKeptBytesMax) slot->fetch = nullptr;
  if (slot->value.capacity() > kKeptBytesMax) std::string().swap(slot->value);
}

// Sets *bytes to the record. It may also come to an answer, an error.
Status GetPipelineImpl::Arrive(Slot* slot, Slice* bytes) {
  if (slot->state == State::kLocated) PostAll();
  *bytes = slot->in_place;
  if (slot->state != State::kPosted) {
    if (bytes->empty()) return Status::OK();
    // It was found in place when its get was submitted. By now it may be others' memory.
    return slot->request->reader->queue_pairs()->Check(slot->lookup.to_fetch().node);
  }
  if (!slot->fetch->complete()) {
    Status arrived = Wait(slot);
    if (!arrived.ok()) {
      FailFetchesWith(*slot, arrived);
      return arrived;
    }
  }
  *bytes = Slice(slot->fetch->buffer.data(), slot->lookup.to_fetch().bytes);
  return Status::OK();
}

Status GetPipelineImpl::Wait(Slot* slot) {
  QueuePair* queue_pair = nullptr;
  DLSM_RETURN_IF_ERROR(QueuePairOf(*slot, &queue_pair));
  // Another thread has posted it, or the queue pair was replaced.
  if (!queue_pair->held().Holds(*slot->fetch)) DLSM_RETURN_IF_ERROR(Post(queue_pair, slot));
  DLSM_RETURN_IF_ERROR(queue_pair->Wait(slot->fetch->ticket, options_.WaitEnds()));
  queue_pair->held().Complete(slot->fetch->ticket);
  return Status::OK();
}

// All that is under way, or to go, the same way, so that who has submitted many does not wait for
// each. But shards share their ways: where one has lost its session, the others have not.
void GetPipelineImpl::FailFetchesWith(const Slot& failed, const Status& why) {
  const NodeQueuePairs* const of_shard = failed.request->reader->queue_pairs();
  const bool shard_alone = !of_shard->Check(failed.lookup.to_fetch().node).ok();
  for (size_t i = 0; i < outstanding_; ++i) {
    Slot& slot = SlotAt(i);
    const bool posted = slot.state == State::kPosted && !slot.fetch->complete();
    if ((!posted && slot.state != State::kLocated) || WayOf(slot) != WayOf(failed)) continue;
    if (shard_alone && slot.request->reader->queue_pairs() != of_shard) continue;
    Finish(&slot, why);
  }
}

}  // namespace dlsm
