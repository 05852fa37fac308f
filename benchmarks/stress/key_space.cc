#include "benchmarks/stress/key_space.h"

#include <fmt/core.h>

#include <cstdlib>

#include "util/random.h"

namespace dlsm::stress {
namespace {

constexpr uint64_t kKeyDigits = 8;
constexpr uint64_t kSuffixBytesMax = 24;
constexpr uint64_t kDeletionOneIn = 6;
constexpr uint64_t kLargeOneIn = 3001;
constexpr uint64_t kHugeKey = 1;
constexpr uint32_t kHugeVersion = 2;

}  // namespace

uint64_t KeySpace::Draw(uint64_t key, uint64_t version) const {
  return SplitMix64(seed_ ^ SplitMix64(key ^ SplitMix64(version)));
}

uint64_t KeySpace::WriterOf(uint64_t group, uint64_t writers) const {
  // The first groups of either kind in turn, so that nobody looks in vain for one of its own.
  const uint64_t turn = group / 2;
  return turn < writers ? turn : Draw(group, ~uint64_t{0}) % writers;
}

std::string KeySpace::Digits(uint64_t key) const {
  return fmt::format("{:0{}x}", descending_ ? count_ - key : key, kKeyDigits);
}

std::string KeySpace::LowerBound(uint64_t key) const {
  // Of keys with the same digits, the longest and largest come first where the order descends.
  return descending_ ? Digits(key) + std::string(kSuffixBytesMax, '\xff') : Digits(key);
}

std::string KeySpace::KeyBytes(uint64_t key) const {
  std::string bytes = Digits(key);
  const uint64_t drawn = Draw(key, ~uint64_t{1});
  bytes.append(drawn % kSuffixBytesMax, static_cast<char>(drawn >> 56));
  return bytes;
}

std::optional<uint64_t> KeySpace::KeyFromBytes(const Slice& bytes) const {
  if (bytes.size() < kKeyDigits) return std::nullopt;
  const uint64_t number = std::strtoull(std::string(bytes.data(), kKeyDigits).c_str(), nullptr, 16);
  if (descending_ && number > count_) return std::nullopt;
  const uint64_t key = descending_ ? count_ - number : number;
  if (key >= count_ || Slice(KeyBytes(key)) != bytes) return std::nullopt;
  return key;
}

bool KeySpace::IsDeletion(uint64_t key, uint32_t version) const {
  return version == 0 || Draw(key, version) % kDeletionOneIn == 0;
}

std::string KeySpace::ValueBytes(uint64_t key, uint32_t version) const {
  const uint64_t drawn = Draw(key, version) >> 8;
  std::string bytes = fmt::format("{:x}:{:x}:", key, version);
  // Mostly small; one of sixteen up to the limit.
  if (drawn % kLargeOneIn == 1) bytes.append(drawn % large_bytes_max_, 'L');
  const uint64_t limit = drawn % 16 == 0 ? value_bytes_max_ : value_bytes_max_ / 16;
  bytes.append((drawn >> 4) % (limit + 1), static_cast<char>('!' + (drawn >> 40) % 90));
  if (key == kHugeKey && version == kHugeVersion && huge_bytes_ > 0) bytes.resize(huge_bytes_, 'H');
  return bytes;
}

std::optional<uint32_t> KeySpace::VersionFromBytes(uint64_t key, const Slice& bytes) const {
  const std::string text = bytes.ToString();
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto version = static_cast<uint32_t>(std::strtoul(text.c_str() + colon + 1, nullptr, 16));
  if (version == 0 || IsDeletion(key, version) || ValueBytes(key, version) != text) {
    return std::nullopt;
  }
  return version;
}

}  // namespace dlsm::stress
