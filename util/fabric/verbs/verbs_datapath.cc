#include "util/fabric/verbs/verbs_datapath.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "port/cpu.h"
#include "port/error_text.h"
#include "util/out_of_memory.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// A bound against callers that post and never wait.
constexpr size_t kOutstandingMax = size_t{1} << 20;
// A look at the clock costs more than a poll, and can cost a system call.
constexpr int kPollsPerLook = 32;
// Every so much of the send queue a completion is asked for, so that room comes back in time.
constexpr uint32_t kSignalsPerQueue = 4;
// A device that has failed as a whole completes nothing: a sleeper looks after it now and then.
constexpr std::chrono::milliseconds kHealthPeriod{500};

uint64_t MessageBytesMax(const VerbsEndpoint& endpoint) {
  const VerbsDevice& device = endpoint.domain().device();
  ibv_port_attr port;
  uint64_t most = uint64_t{1} << 20;  // Every device can do that.
  if (device.QueryPort(&port).ok() && port.max_msg_sz > 0) most = port.max_msg_sz;
  const uint64_t wished = device.options().message_bytes_max;
  return wished == 0 ? most : std::min(most, wished);
}

bool IsAtomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

timespec ToTimespec(std::chrono::nanoseconds duration) {
  constexpr int64_t kPerSecond = 1'000'000'000;
  timespec made{};
  made.tv_sec = duration.count() / kPerSecond;
  made.tv_nsec = duration.count() % kPerSecond;
  return made;
}

}  // namespace

VerbsQueuePair::VerbsQueuePair(std::unique_ptr<VerbsEndpoint> endpoint, FileDescriptor life_line,
                               std::shared_ptr<const VerbsPeer> peer,
                               std::vector<VerbsRemoteMemory> memory,
                               std::shared_ptr<VerbsBuffers> buffers, VerbsSlots::Slot slot,
                               VerbsBooks& books)
    : slot_(std::move(slot)),
      peer_(std::move(peer)),
      check_(peer_->node, peer_->regions),
      memory_(std::move(memory)),
      message_bytes_max_(MessageBytesMax(*endpoint)),
      spin_(endpoint->domain().device().options().spin_us),
      life_line_(std::move(life_line)),
      bounce_(std::move(buffers)),
      endpoint_(std::move(endpoint)),
      farewells_(books.farewells),
      ledger_(books.costs),
      counters_(books.counters),
      chain_(endpoint_->depth()),
      parts_(endpoint_->depth()) {
  farewells_.Expect();
}

VerbsQueuePair::~VerbsQueuePair() {
  if (error_.ok() && (!in_flight_.empty() || !posted_.empty())) Drain();
  farewells_.Forgo();
}

// Where there is no memory to hand a request over, or to say what is wrong, the queue pair closes
// all the same, here and below: whoever has posted takes its buffers back then.
Status VerbsQueuePair::CheckPost(const Status& check) try {
  if (!check.ok()) [[unlikely]]
    return Close(check);
  // What is pending may be so because of this.
  if (endpoint_->health().broken()) [[unlikely]]
    return Close(endpoint_->health().why());
  if (farewells_.Pending()) [[unlikely]]
    return Close(FarewellPending(peer_->name, farewells_));
  if (posted_.size() < kOutstandingMax) [[likely]]
    return Status::OK();
  return Close(Status::InvalidArgument(
      fmt::format("{} requests were posted and not waited for", kOutstandingMax)));
} catch (const std::bad_alloc&) {
  return Close(OutOfTransferMemory());
}

Status VerbsQueuePair::Append(const Request& request) try {
  posted_.push_back(request);
  return Status::OK();
} catch (const std::bad_alloc&) {
  return Close(OutOfTransferMemory());
}

Status VerbsQueuePair::PostRead(const RemoteSpan& from, const LocalSpan& to, Purpose purpose,
                                Ticket* ticket) {
  DLSM_RETURN_IF_ERROR(error_);
  const MappedRegion* region = nullptr;
  DLSM_RETURN_IF_ERROR(CheckPost(check_.Transfer(from, to, &region)));
  *ticket = ledger_.PostRead(from.bytes, purpose);
  return Append(Request{IBV_WR_RDMA_READ, to.local_key, from.region, from.offset, to.data,
                        from.bytes, 0, 0, nullptr});
}

Status VerbsQueuePair::PostWrite(const LocalSpan& from, const RemoteSpan& to, Purpose purpose,
                                 Ticket* ticket) {
  DLSM_RETURN_IF_ERROR(error_);
  const MappedRegion* region = nullptr;
  DLSM_RETURN_IF_ERROR(CheckPost(check_.Transfer(to, from, &region)));
  *ticket = ledger_.PostWrite(to.bytes, purpose);
  return Append(Request{IBV_WR_RDMA_WRITE, from.local_key, to.region, to.offset, from.data,
                        to.bytes, 0, 0, nullptr});
}

Status VerbsQueuePair::PostAtomic(const RemoteSpan& word, const Request& request, Purpose purpose,
                                  Ticket* ticket) {
  DLSM_RETURN_IF_ERROR(error_);
  const MappedRegion* region = nullptr;
  DLSM_RETURN_IF_ERROR(CheckPost(check_.Atomic(word, &region)));
  // The far end's device carries them out.
  if (!endpoint_->peer_has_atomics()) {
    return Close(Status::NotSupported(
        fmt::format("the RDMA device of {} has no atomics; use another device, or the tcp fabric",
                    peer_->name)));
  }
  *ticket = ledger_.PostAtomic(purpose);
  return Append(request);
}

Status VerbsQueuePair::PostCompareAndSwap(const RemoteSpan& word, uint64_t expected,
                                          uint64_t desired, uint64_t* prior, Purpose purpose,
                                          Ticket* ticket) {
  return PostAtomic(word,
                    Request{IBV_WR_ATOMIC_CMP_AND_SWP, 0, word.region, word.offset, nullptr,
                            kAtomicWordBytes, expected, desired, prior},
                    purpose, ticket);
}

Status VerbsQueuePair::PostFetchAdd(const RemoteSpan& word, uint64_t addend, uint64_t* prior,
                                    Purpose purpose, Ticket* ticket) {
  return PostAtomic(word,
                    Request{IBV_WR_ATOMIC_FETCH_AND_ADD, 0, word.region, word.offset, nullptr,
                            kAtomicWordBytes, addend, 0, prior},
                    purpose, ticket);
}

Status VerbsQueuePair::Ring() try {
  DLSM_RETURN_IF_ERROR(error_);
  ledger_.Ring();
  return Issue();
} catch (const std::bad_alloc&) {
  return Close(OutOfTransferMemory());
}

Status VerbsQueuePair::Issue() {
  size_t count = 0;
  while (!posted_.empty() && in_flight_.size() < chain_.size()) {
    Request& front = posted_.front();
    if (front.bytes == 0) {
      // Nothing for the device to do: it ends with what is before it.
      if (in_flight_.empty()) {
        ++completed_;
      } else {
        ++in_flight_.back().requests_ended;
      }
      posted_.pop_front();
      continue;
    }
    const bool bounces = front.local_key == 0;
    if (bounces && bounce_.local_key() == 0) {
      const Status status = bounce_.Prepare();
      if (!status.ok()) return Close(status);
    }
    if (!BuildNext(&chain_[count], &parts_[count])) break;
    if (count > 0) chain_[count - 1].next = &chain_[count];
    ++count;
  }
  if (count == 0) return Status::OK();
  chain_[count - 1].next = nullptr;
  chain_[count - 1].send_flags |= IBV_SEND_SIGNALED;
  unsignaled_ = 0;
  VerbsCounters::Add(counters_.doorbells, 1);
  VerbsCounters::Add(counters_.work_requests, count);
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(endpoint_->queue_pair(), chain_.data(), &refused);
  if (error == 0) [[likely]] {
    reported_ = chain_[count - 1].wr_id;
    return Status::OK();
  }
  // What it has taken without being asked for a completion of it may end silently.
  for (const ibv_send_wr* each = chain_.data(); refused != nullptr && each != refused; ++each) {
    if ((each->send_flags & IBV_SEND_SIGNALED) != 0) reported_ = each->wr_id;
  }
  return Close(
      Status::IOError(fmt::format("RDMA device {} does not take a work request: {}",
                                  endpoint_->domain().device().name(), port::ErrorText(error))));
}

bool VerbsQueuePair::BuildNext(ibv_send_wr* request, ibv_sge* part) {
  Request& front = posted_.front();
  const uint64_t offset = front.offset + front_issued_;
  const VerbsRemoteMemory& memory = Locate(front, offset);
  uint64_t bytes = std::min(
      {front.bytes - front_issued_, message_bytes_max_, memory.offset + memory.bytes - offset});
  const bool write = front.opcode == IBV_WR_RDMA_WRITE;
  char* local = front.local + front_issued_;
  Flight flight;
  // Inline bytes are copied by the post itself, wherever they are.
  const bool inlined = write && bytes <= endpoint_->inline_bytes();
  uint32_t key = front.local_key;
  if (key == 0 && !inlined) {
    bytes = std::min<uint64_t>(bytes, VerbsBounce::kPieceBytesMax);
    if (!bounce_.Take(bytes, &flight.bounce)) return false;
    if (write) {
      std::memcpy(flight.bounce.data, local, bytes);
    } else {
      flight.copy_to = IsAtomic(front.opcode) ? reinterpret_cast<char*>(front.prior) : local;
      flight.copy_bytes = bytes;
    }
    VerbsCounters::Add(counters_.copied_bytes, bytes);
    local = flight.bounce.data;
    key = bounce_.local_key();
  }
  *part = ibv_sge{reinterpret_cast<uintptr_t>(local), static_cast<uint32_t>(bytes), key};
  *request = {};
  request->wr_id = retired_ + in_flight_.size() + 1;
  request->sg_list = part;
  request->num_sge = 1;
  request->opcode = front.opcode;
  request->send_flags = inlined ? IBV_SEND_INLINE : 0;
  if (++unsignaled_ >= std::max<size_t>(chain_.size() / kSignalsPerQueue, 1)) {
    request->send_flags |= IBV_SEND_SIGNALED;
    unsignaled_ = 0;
  }
  const bool atomic = IsAtomic(front.opcode);
  if (atomic || (write && last_atomic_ > retired_)) request->send_flags |= IBV_SEND_FENCE;
  const uint64_t address = memory.address + (offset - memory.offset);
  if (atomic) {
    last_atomic_ = request->wr_id;
    request->wr.atomic.remote_addr = address;
    request->wr.atomic.compare_add = front.operand;
    request->wr.atomic.swap = front.desired;
    request->wr.atomic.rkey = memory.key;
  } else {
    request->wr.rdma.remote_addr = address;
    request->wr.rdma.rkey = memory.key;
  }
  front_issued_ += bytes;
  if (front_issued_ == front.bytes) {
    flight.requests_ended = 1;
    front_issued_ = 0;
    posted_.pop_front();
  }
  in_flight_.push_back(flight);
  return true;
}

const VerbsRemoteMemory& VerbsQueuePair::Locate(const Request& request, uint64_t offset) const {
  // One or two of them, but for the largest regions on the poorest devices.
  const auto holds = [&](const VerbsRemoteMemory& each) {
    return each.region == request.region && offset >= each.offset &&
           offset - each.offset < each.bytes;
  };
  const auto found = std::find_if(memory_.begin(), memory_.end(), holds);
  assert(found != memory_.end());
  return *found;
}

Status VerbsQueuePair::BeginWait(Ticket ticket) {
  DLSM_RETURN_IF_ERROR(Ring());
  ledger_.Wait(ticket);
  return Status::OK();
}

Status VerbsQueuePair::PollAWhile(bool* progress) {
  *progress = false;
  for (int i = 0; i < kPollsPerLook && !*progress; ++i) {
    if (i > 0) port::CpuRelax();
    DLSM_RETURN_IF_ERROR(Poll(progress));
  }
  return Status::OK();
}

Status VerbsQueuePair::Advance(Ticket ticket, bool* done) try {
  DLSM_RETURN_IF_ERROR(error_);
  const auto until = static_cast<uint64_t>(ticket);
  bool progress = false;
  if (completed_ < until) DLSM_RETURN_IF_ERROR(PollAWhile(&progress));
  *done = completed_ >= until;
  if (*done) return Status::OK();
  if (progress) return Issue();
  if (endpoint_->health().broken()) return Close(endpoint_->health().why());
  return LifeLineEnded(life_line_.get()) ? Close(Lost()) : Status::OK();
} catch (const std::bad_alloc&) {
  return Close(OutOfTransferMemory());
}

Status VerbsQueuePair::Wait(Ticket ticket, Deadline deadline) try {
  DLSM_RETURN_IF_ERROR(BeginWait(ticket));
  const auto until = static_cast<uint64_t>(ticket);
  Deadline::Clock::time_point sleep_at{};  // Not before the first look at the clock.
  while (completed_ < until) {
    bool progress = false;
    DLSM_RETURN_IF_ERROR(PollAWhile(&progress));
    if (completed_ >= until) break;
    if (progress) DLSM_RETURN_IF_ERROR(Issue());
    const auto now = Deadline::Clock::now();
    if (now >= deadline.time_point()) {
      return Close(Status::TimedOut(
          fmt::format("{} has not answered in time: is it overloaded, or its network down?{}",
                      peer_->name, endpoint_->domain().device().events().PortTrouble())));
    }
    if (progress || sleep_at == Deadline::Clock::time_point{}) {
      sleep_at = now + spin_;
    } else if (now >= sleep_at) {
      DLSM_RETURN_IF_ERROR(Sleep(deadline));
    }
  }
  return Status::OK();
} catch (const std::bad_alloc&) {
  return Close(OutOfTransferMemory());
}

Status VerbsQueuePair::Poll(bool* progress) {
  std::array<ibv_wc, kCompletionsPerPoll> completions;
  const int count = ibv_poll_cq(endpoint_->completions(), kCompletionsPerPoll, completions.data());
  if (count < 0) [[unlikely]] {
    return Close(Status::IOError(fmt::format("the completion queue of RDMA device {} is broken",
                                             endpoint_->domain().device().name())));
  }
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = completions[static_cast<size_t>(i)];
    VerbsCounters::Add(counters_.completions, 1);
    if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
      // What was polled with it must not be waited for again, even if there is no memory to say
      // why.
      retired_ = std::max(retired_, completions[static_cast<size_t>(count - 1)].wr_id);
      return Close(Failed(completion));
    }
    Retire(completion.wr_id);
  }
  *progress = count > 0;
  return Status::OK();
}

void VerbsQueuePair::Retire(uint64_t number) {
  while (retired_ < number) {
    const Flight& flight = in_flight_.front();
    if (flight.copy_to != nullptr) {
      std::memcpy(flight.copy_to, flight.bounce.data, flight.copy_bytes);
    }
    bounce_.Give(flight.bounce);
    completed_ += flight.requests_ended;
    in_flight_.pop_front();
    ++retired_;
  }
}

// The queue is armed first and polled again after that, so that no completion falls in between.
Status VerbsQueuePair::Sleep(Deadline deadline) {
  if (endpoint_->health().broken()) return Close(endpoint_->health().why());
  if (!notify_armed_) {
    const int error = ibv_req_notify_cq(endpoint_->completions(), 0);
    if (error != 0) {
      return Close(Status::IOError(fmt::format("RDMA device {} does not report completions: {}",
                                               endpoint_->domain().device().name(),
                                               port::ErrorText(error))));
    }
    notify_armed_ = true;
    return Status::OK();
  }
  VerbsCounters::Add(counters_.sleeps, 1);
  pollfd entries[2] = {{endpoint_->events()->fd, POLLIN, 0}, {life_line_.get(), POLLIN, 0}};
  const timespec timeout =
      ToTimespec(std::min<std::chrono::nanoseconds>(deadline.Remaining(), kHealthPeriod));
  if (::ppoll(entries, 2, &timeout, nullptr) <= 0) return Status::OK();
  if ((entries[0].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
    return Close(Status::IOError(
        fmt::format("RDMA device {} no longer reports completions: has it been removed?",
                    endpoint_->domain().device().name())));
  }
  if (entries[0].revents != 0) {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    const VerbsLibrary& library = endpoint_->domain().library();
    if (library.get_cq_event(endpoint_->events(), &queue, &context) == 0) {
      library.ack_cq_events(queue, 1);
      notify_armed_ = false;
    }
  }
  return entries[1].revents != 0 && LifeLineEnded(life_line_.get()) ? Close(Lost()) : Status::OK();
}

}  // namespace dlsm
