#include "util/fabric/verbs/verbs_buffers.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "port/allocation_point.h"
#include "port/per_process.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr size_t kBufferBytesMin = 4096;
constexpr size_t kSlabBytes = size_t{8} << 20;  // Four huge pages of x86-64.
constexpr size_t kCutBytesMax = size_t{2} << 20;
constexpr size_t kIdleLargeBytesMax = size_t{64} << 20;

// What a device may still write to, until the process ends and beyond static destruction: a list.
struct Abandoned {
  port::Mutex mutex;
  std::shared_ptr<VerbsBuffers> last GUARDED_BY(mutex);
};

Abandoned& TheAbandoned() {
  static constinit port::PerProcess<Abandoned> abandoned;
  return abandoned.Here();
}

}  // namespace

VerbsBuffers::VerbsBuffers(std::shared_ptr<const VerbsDomain> domain, int numa_node)
    : domain_(std::move(domain)), numa_node_(numa_node) {
  TheAbandoned();  // So that it is there when there is no memory for it.
}

Status VerbsBuffers::NewBuffer(size_t bytes, RegisteredBuffer* buffer) {
  if (bytes > domain_->registration_bytes_max() || bytes > (size_t{1} << 40)) {
    return Status::InvalidArgument(
        fmt::format("a transfer buffer of {} bytes is too large", bytes));
  }
  const size_t rounded = std::bit_ceil(std::max(bytes, kBufferBytesMin));
  Piece piece;
  DLSM_RETURN_IF_ERROR(Take(rounded, &piece));
  char* const data = piece.data;
  const uint32_t key = piece.local_key;
  std::shared_ptr<char[]> memory(data, [pool = shared_from_this(), piece = std::move(piece),
                                        rounded](char*) { pool->Give(piece, rounded); });
  *buffer = RegisteredBuffer(std::move(memory), bytes, key);
  return Status::OK();
}

void VerbsBuffers::Abandon() {
  {
    const port::MutexLock lock(mutex_);
    if (std::exchange(abandoned_, true)) return;
  }
  Abandoned& abandoned = TheAbandoned();
  const port::MutexLock lock(abandoned.mutex);
  abandoned_before_ = std::exchange(abandoned.last, shared_from_this());
}

uint64_t VerbsBuffers::registrations() const {
  const port::MutexLock lock(mutex_);
  return registrations_;
}

std::vector<VerbsBuffers::Piece>& VerbsBuffers::Shelf(size_t bytes) {
  return shelves_[static_cast<size_t>(std::countr_zero(bytes))];
}

Status VerbsBuffers::Take(size_t bytes, Piece* piece) {
  const port::MutexLock lock(mutex_);
  if (abandoned_) {
    return Status::IOError(fmt::format("RDMA device {} has not destroyed a queue pair; restart it",
                                       domain_->device().name()));
  }
  const bool large = bytes > kCutBytesMax;
  std::vector<Piece>& shelf = Shelf(bytes);
  if (!shelf.empty()) {
    *piece = std::move(shelf.back());
    shelf.pop_back();
    if (large) idle_large_bytes_ -= bytes;
    return Status::OK();
  }
  std::shared_ptr<Slab> slab;
  if (large) {
    DLSM_RETURN_IF_ERROR(NewSlab(bytes, &slab));
    *piece = Piece{slab->memory.data(), slab->registration->lkey, slab};
    return Status::OK();
  }
  if (slabs_.empty() || slabs_.back()->cut_bytes + bytes > kSlabBytes) {
    DLSM_RETURN_IF_ERROR(NewSlab(kSlabBytes, &slab));
    if (!slabs_.empty()) ShelveRest(*slabs_.back());
    slabs_.push_back(std::move(slab));
  }
  Slab& from = *slabs_.back();
  *piece = Piece{from.memory.data() + from.cut_bytes, from.registration->lkey, nullptr};
  from.cut_bytes += bytes;
  return Status::OK();
}

void VerbsBuffers::ShelveRest(Slab& slab) {
  for (size_t left = kSlabBytes - slab.cut_bytes; left > 0; left = kSlabBytes - slab.cut_bytes) {
    const size_t bytes = std::bit_floor(left);
    Shelf(bytes).push_back(
        Piece{slab.memory.data() + slab.cut_bytes, slab.registration->lkey, nullptr});
    slab.cut_bytes += bytes;
  }
}

void VerbsBuffers::Give(Piece piece, size_t bytes) {
  const port::MutexLock lock(mutex_);
  if (abandoned_) {
    if (piece.own == nullptr) return;
    piece.own->kept_before = std::move(kept_);
    kept_ = std::move(piece.own);
    return;
  }
  const bool large = piece.own != nullptr;
  if (large && idle_large_bytes_ + bytes > kIdleLargeBytesMax) return;
  try {
    port::AllocationPoint("buffer kept");
    Shelf(bytes).push_back(std::move(piece));
    if (large) idle_large_bytes_ += bytes;
  } catch (const std::bad_alloc&) {
    // A large one goes; a small one stays unused as long as its slab. Who gives it back is a
    // destructor.
  }
}

Status VerbsBuffers::NewSlab(size_t bytes, std::shared_ptr<Slab>* slab) {
  auto made = std::make_shared<Slab>();
  DLSM_RETURN_IF_ERROR(MemoryMapping::Anonymous(bytes, &made->memory));
  (void)AdviseHugePages(made->memory, /*shared=*/false);
  KeepFromChildren(made->memory);
  // Before the device pins its pages, which takes them.
  made->on_node = PreferredMemory(made->memory.data(), bytes, numa_node_);
  DLSM_RETURN_IF_ERROR(domain_->Register(made->memory.data(), bytes,
                                         domain_->device().read_access(), &made->registration));
  ++registrations_;
  *slab = std::move(made);
  return Status::OK();
}

}  // namespace dlsm
