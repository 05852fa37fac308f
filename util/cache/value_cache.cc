#include "util/cache/value_cache.h"

#include <algorithm>
#include <bit>
#include <new>
#include <string>

#include "port/cpu.h"

namespace dlsm {
namespace {

// Fewer bytes in a shard would make for too small a largest entry, more shards for nothing: only
// inserts take their locks, and give way.
constexpr uint64_t kShardBytesMin = uint64_t{4} << 20;
constexpr uint64_t kShardsMax = 64;

uint64_t ShardsFor(uint64_t bytes) {
  return std::bit_floor(std::clamp<uint64_t>(bytes / kShardBytesMin, 1, kShardsMax));
}

// Whole cache lines.
uint64_t WordsOfShard(uint64_t bytes) {
  return bytes / ShardsFor(bytes) / port::kCacheLineBytes * port::kCacheLineBytes /
         sizeof(uint64_t);
}

}  // namespace

Status ValueCache::New(uint64_t bytes, std::shared_ptr<ValueCache>* cache) {
  try {
    *cache = std::make_shared<ValueCache>(bytes);
    return Status::OK();
  } catch (const std::bad_alloc&) {
    return Status::InvalidArgument(
        "value_cache_size is more than this process can have: " + std::to_string(bytes) + " bytes",
        "lower it");
  }
}

ValueCache::ValueCache(uint64_t bytes)
    : words_(WordsOfShard(bytes)),
      entry_bytes_max_(std::min(ValueCacheShard::EntryBytesMax(words_), EntryKey::kBytesMax)),
      memory_(words_ * sizeof(uint64_t) * ShardsFor(bytes)) {
  auto* const words = reinterpret_cast<uint64_t*>(memory_.data());
  for (uint64_t i = 0; i < ShardsFor(bytes); ++i) {
    shards_.push_back(std::make_unique<ValueCacheShard>(words + i * words_, words_, &dead_));
  }
}

bool ValueCache::Lookup(const EntryKey& key, Slice* bytes) {
  if (!Admits(key.bytes)) return false;
  EntryBuffer& buffer = buffers_.Local();
  const uint64_t hash = key.Hash();
  if (!ShardOf(hash).Lookup(hash, key, &buffer)) return false;
  *bytes = Slice(buffer.data(), key.bytes);
  return true;
}

ValueCache::Change ValueCache::Insert(const EntryKey& key, const Slice& bytes) {
  if (!Admits(key.bytes)) return {};
  const uint64_t hash = key.Hash();
  return ShardOf(hash).Insert(hash, key, bytes.data());
}

uint64_t ValueCache::UsedBytes() const {
  uint64_t sum = 0;
  for (const auto& shard : shards_) sum += shard->UsedBytes();
  return sum;
}

}  // namespace dlsm
