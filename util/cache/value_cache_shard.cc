#include "util/cache/value_cache_shard.h"

namespace dlsm {
namespace {

// A slot of the index; 0: free, for no entry has position 0.
//
//   | position: 53 bits | tag: 8 bits | reads: 2 bits | in the main ring: 1 bit |
constexpr uint64_t kInMain = 1;
constexpr uint64_t kOneRead = 2;
constexpr uint64_t kReadsMax = 3;
constexpr int kTagShift = 3;
constexpr uint64_t kTagMask = uint64_t{0xff} << kTagShift;
constexpr int kPositionShift = 11;

uint64_t ReadsOf(uint64_t slot) { return (slot / kOneRead) & kReadsMax; }
uint64_t PositionOf(uint64_t slot) { return slot >> kPositionShift; }
uint64_t TagOf(uint64_t hash) { return (hash << kTagShift) & kTagMask; }
uint64_t SlotOf(uint64_t position, uint64_t hash, bool in_main) {
  return position << kPositionShift | TagOf(hash) | (in_main ? kInMain : 0);
}

// How often an entry of the small ring has been read when it is worth a place in the main one.
constexpr uint64_t kReadsForMain = 2;
// What goes round the main ring for the sake of one insert; each costs a copy, under the lock.
constexpr int kKeptMax = 16;

}  // namespace

// A slot of the index for 128 bytes, a ghost for 256.
ValueCacheShard::Parts ValueCacheShard::PartsOf(uint64_t words) {
  Parts parts;
  parts.buckets = words / (16 * kBucketSlots);
  parts.ghosts = words / (32 * GhostList::kBucketSlots) * GhostList::kBucketSlots;
  const uint64_t rings = words - parts.buckets * kBucketSlots - parts.ghosts;
  parts.small = rings / 10;
  parts.main = rings - parts.small;
  return parts;
}

ValueCacheShard::ValueCacheShard(uint64_t* words, const Parts& parts, const DeadTables* dead)
    : dead_(dead),
      slots_(words),
      buckets_(parts.buckets),
      small_(words + parts.buckets * kBucketSlots, parts.small),
      main_(words + parts.buckets * kBucketSlots + parts.small, parts.main),
      ghosts_(words + parts.buckets * kBucketSlots + parts.small + parts.main, parts.ghosts,
              parts.main * sizeof(uint64_t)) {}

const EntryRing& ValueCacheShard::RingOf(uint64_t slot) const {
  return (slot & kInMain) != 0 ? main_ : small_;
}

bool ValueCacheShard::Lookup(uint64_t hash, const EntryKey& key, EntryBuffer* buffer) const {
  uint64_t* const bucket = BucketOf(hash);
  for (uint64_t* at = bucket; at < bucket + kBucketSlots; ++at) {
    const Slot slot(*at);
    // Pairs with the release where slots are set: what it points to has been written.
    uint64_t found = slot.load(std::memory_order_acquire);
    if (found == 0 || (found & kTagMask) != TagOf(hash)) continue;
    if (!RingOf(found).Read(PositionOf(found), key, buffer)) continue;
    // An entry that is read often is not written to. A count that gets lost does no harm.
    if (ReadsOf(found) < kReadsMax) {
      slot.compare_exchange_strong(found, found + kOneRead, std::memory_order_relaxed);
    }
    return true;
  }
  return false;
}

bool ValueCacheShard::IsThereLocked(uint64_t hash, const EntryKey& key) const {
  const uint64_t* const bucket = BucketOf(hash);
  for (size_t i = 0; i < kBucketSlots; ++i) {
    const uint64_t found = Slot(const_cast<uint64_t&>(bucket[i])).load(std::memory_order_relaxed);
    if (found == 0 || (found & kTagMask) != TagOf(hash)) continue;
    if (RingOf(found).IsAt(PositionOf(found), key)) return true;
  }
  return false;
}

// Null if the entry at that position has lost its slot.
uint64_t* ValueCacheShard::SlotAtLocked(const EntryKey& key, uint64_t position,
                                        bool in_main) const {
  const uint64_t hash = key.Hash();
  const uint64_t wanted = SlotOf(position, hash, in_main);
  uint64_t* const bucket = BucketOf(hash);
  for (uint64_t* at = bucket; at < bucket + kBucketSlots; ++at) {
    const uint64_t found = Slot(*at).load(std::memory_order_relaxed);
    if ((found & ~(kReadsMax * kOneRead)) == wanted) return at;
  }
  return nullptr;
}

ValueCacheShard::Change ValueCacheShard::Insert(uint64_t hash, const EntryKey& key,
                                                const char* bytes) {
  Change change;
  if (!mutex_.TryLock()) return change;
  if (!IsThereLocked(hash, key)) {
    const bool to_main = ghosts_.Take(hash);
    if (to_main) {
      MakeRoomInMainLocked(key.bytes, &change);
    } else {
      MakeRoomInSmallLocked(key.bytes, &change);
    }
    const uint64_t position = (to_main ? main_ : small_).Append(key, bytes);
    PutLocked(hash, SlotOf(position, hash, to_main), &change);
    change.inserted = true;
  }
  mutex_.Unlock();
  return change;
}

// In place of nothing, or of the entry of the bucket that was read least.
void ValueCacheShard::PutLocked(uint64_t hash, uint64_t slot, Change* change) {
  uint64_t* const bucket = BucketOf(hash);
  uint64_t* to = bucket;
  uint64_t least_reads = kReadsMax + 1;
  for (uint64_t* at = bucket; at < bucket + kBucketSlots; ++at) {
    const uint64_t found = Slot(*at).load(std::memory_order_relaxed);
    if (found == 0) {
      to = at;
      break;
    }
    if (ReadsOf(found) < least_reads) {
      least_reads = ReadsOf(found);
      to = at;
    }
  }
  if (Slot(*to).load(std::memory_order_relaxed) != 0) ++change->evicted;
  // Pairs with the acquire of readers.
  Slot(*to).store(slot, std::memory_order_release);
}

void ValueCacheShard::MakeRoomInSmallLocked(uint64_t bytes, Change* change) {
  while (!small_.HasRoomFor(bytes)) {
    EntryKey key;
    const uint64_t position = small_.Oldest(&key);
    uint64_t* const at = SlotAtLocked(key, position, /*in_main=*/false);
    if (at == nullptr) {
      small_.DropOldest();
      continue;
    }
    const uint64_t hash = key.Hash();
    const bool dead = dead_->Has(key.table);
    // As long as the main ring has never been full, everything finds a place there.
    const bool worth_it =
        ReadsOf(Slot(*at).load(std::memory_order_relaxed)) >= kReadsForMain || !main_was_full_;
    if (!dead && worth_it) {
      MakeRoomInMainLocked(key.bytes, change);
      const uint64_t moved_to = main_.AppendFrom(small_, position, key);
      Slot(*at).store(SlotOf(moved_to, hash, /*in_main=*/true), std::memory_order_release);
    } else {
      Slot(*at).store(0, std::memory_order_relaxed);
      if (!dead) {
        ghosts_.Add(hash, key.bytes);
        ++change->evicted;
      }
    }
    small_.DropOldest();
  }
}

void ValueCacheShard::MakeRoomInMainLocked(uint64_t bytes, Change* change) {
  for (int kept = 0; !main_.HasRoomFor(bytes);) {
    main_was_full_ = true;
    EntryKey key;
    const uint64_t position = main_.Oldest(&key);
    uint64_t* const at = SlotAtLocked(key, position, /*in_main=*/true);
    const uint64_t slot = at == nullptr ? 0 : Slot(*at).load(std::memory_order_relaxed);
    const bool dead = dead_->Has(key.table);
    const bool keep = ReadsOf(slot) > 0 && !dead && kept < kKeptMax;
    main_.DropOldest();
    if (at == nullptr) continue;
    // What the ring's end makes it skip may leave no room for it.
    if (keep && main_.HasRoomFor(key.bytes)) {
      ++kept;
      const uint64_t moved_to = main_.AppendFrom(main_, position, key);
      const uint64_t moved = SlotOf(moved_to, key.Hash(), /*in_main=*/true);
      Slot(*at).store(moved + (ReadsOf(slot) - 1) * kOneRead, std::memory_order_release);
      continue;
    }
    Slot(*at).store(0, std::memory_order_relaxed);
    if (!dead) ++change->evicted;
  }
}

uint64_t ValueCacheShard::UsedBytes() const {
  const port::MutexLock lock(mutex_);
  return small_.UsedBytes() + main_.UsedBytes();
}

}  // namespace dlsm
